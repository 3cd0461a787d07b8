"""The settings of a database sink: the base class of the sinks that users name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, get_args

from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.connections.environment import read_connection
from airflow_provider_ckpt.sinks.argument_checks import names_problem
from airflow_provider_ckpt.sinks.database.database_settings import DatabaseSettings
from airflow_provider_ckpt.sinks.database.names import ROW, TASK_ATTEMPT, TableName
from airflow_provider_ckpt.sinks.errors import InvalidSinkError, SinkInputError
from airflow_provider_ckpt.sinks.sink import Sink, SinkInput
from airflow_provider_ckpt.sinks.spark_types import shown

Mode = Literal["append", "upsert", "replace"]
A = TypeVar("A")
STATEMENT_TIMEOUT = 3600
"""Default timeout of a statement in seconds. It is long because a statement may move a whole batch or empty a table."""
MIN_TIMEOUT, MAX_TIMEOUT = 1, 86_400
"""Minimum and maximum of ``statement_timeout`` in seconds."""


@dataclass(frozen=True)
class DatabaseSink(Sink):
    """A sink that releases each checkpoint in one transaction of a database. Subclasses describe the other arguments.

    Args:
        staging_schema: schema of the ledger and the staging tables; None means the schema of the table.
        statement_timeout: timeout of a statement in seconds; None means the default.
        database: name of the database in messages.
    """

    table: str
    mode: Mode = "append"
    key: Sequence[str] = ()
    conn_id: str | None = None
    url: str | None = field(default=None, repr=False)
    create: bool = False
    staging_schema: str | None = None
    statement_timeout: float | None = field(default=None, kw_only=True)

    database: ClassVar[str]
    changeable: ClassVar[frozenset[str]] = frozenset({"conn_id", "create"})
    """Settings that may change when a job resumes. The ledger shows if another connection leads to another database."""

    @property
    def settings(self) -> DatabaseSettings:
        """The parsed settings of a valid sink."""
        return DatabaseSettings(self.parsed_table(), self.mode, tuple(self.key), self.create, self.staging_schema or "")

    def definition(self) -> dict[str, Any]:
        return {
            **super().definition(),
            "table": str(self.parsed_table()),
            "mode": self.mode,
            "key": list(self.key),
            "staging_schema": self.staging_schema,
            "conn_id": self.conn_id,
            "create": self.create,
        }

    @abstractmethod
    def parsed_table(self) -> TableName:
        """Return the parsed name of the table.

        Raises ValueError, whose text describes the problem.
        """

    @abstractmethod
    def problem_of(self, name: str) -> str | None:
        """Return why a column or table cannot be called ``name``; None if it can."""

    @abstractmethod
    def has_type_for(self, kind: Any) -> bool:
        """Return True if the database has a column type that stores values of this Spark type unchanged."""

    @abstractmethod
    def validate_place(self) -> None:
        """Refuse an unusable ``staging_schema``, and an unusable ``url`` if it is given.

        Raises InvalidSinkError.
        """

    def validate(self) -> None:
        if not isinstance(self.table, str):
            raise self.invalid("table", self.table, "is no text; write schema.table")
        try:
            self.parsed_table()
        except ValueError as error:
            raise self.invalid("table", self.table, str(error)) from None
        if self.mode not in get_args(Mode):
            raise self.invalid("mode", self.mode, f"is unknown; use one of {', '.join(get_args(Mode))}")
        self._validate_key()
        self._validate_timeout()
        if (self.conn_id is None) == (self.url is None):
            raise self.invalid("conn_id", self.conn_id, "and url: give one of the two")
        for setting in ("conn_id", "url", "staging_schema"):
            if not isinstance(getattr(self, setting), (str, type(None))):
                raise self.invalid(setting, "…", "is no text")
        self.validate_place()

    def _validate_timeout(self) -> None:
        timeout = self.statement_timeout
        is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
        if timeout is not None and not (is_number and MIN_TIMEOUT <= timeout <= MAX_TIMEOUT):
            reason = f"is no number of seconds from {MIN_TIMEOUT} to {MAX_TIMEOUT}"
            raise self.invalid("statement_timeout", timeout, reason)

    def _validate_key(self) -> None:
        if problem := names_problem(self.key):
            raise self.invalid("key", self.key, problem)
        key = list(self.key)
        if bool(key) is not (self.mode == "upsert"):
            reason = "is needed for upsert: give the columns that identify a row" if not key else "is for upsert only"
            raise self.invalid("key", key, reason)
        if len(set(key)) < len(key):
            raise self.invalid("key", key, "names a column twice")

    def not_released_with(self, other: Sink) -> str | None:
        if not isinstance(other, type(self)):
            return f"a {type(self).__name__} and a {type(other).__name__} are not in one database"
        assert isinstance(other, DatabaseSink)
        if (self.conn_id, self.url) == (other.conn_id, other.url):
            return None
        # two connections may lead to one database, but a transaction belongs to one connection
        return "they have different connections"

    def read_address(self, of_url: Callable[[str], A | None], of_connection: Callable[[Connection], A]) -> A:
        """Return the address in ``url`` or in the connection ``conn_id``.

        Args:
            of_url: returns the address in a URL, or None if the URL is unreadable.
            of_connection: returns the address in a connection.

        Raises InvalidSinkError, ConnectionMissingError, BadConnectionError.
        """
        if self.url is None:
            return of_connection(read_connection(str(self.conn_id)))
        address = of_url(self.url)
        if address is None:
            raise self.invalid("url", "***", "cannot be read: are user and password quoted (%40 for an @)?")
        return address

    def invalid(self, setting: str, value: object, reason: str) -> InvalidSinkError:
        return InvalidSinkError(sink=type(self).__name__, setting=setting, value=value, reason=reason)

    def check_input(self, given: SinkInput) -> None:
        if not given.columns:
            raise _refused(given, "its input has no columns", "Select at least one")
        if given.output_mode != "append" and self.mode != "upsert":
            problem = (
                f"output mode {given.output_mode!r} repeats a row when it changes, and mode={self.mode!r} would add it"
            )
            raise _refused(given, problem, 'Use mode="upsert" with a key')
        self._check_names(given)
        for name, kind in given.columns:
            if not self.has_type_for(kind):
                problem = (
                    f"column {name!r} is of type {shown(kind)}, which no column of {self.database} keeps unchanged"
                )
                raise _refused(given, problem, "Cast it to another type, or leave it out")

    def _check_names(self, given: SinkInput) -> None:
        names = [name for name, _ in given.columns]
        for number, name in enumerate(names):
            problem = "is a name that the sink itself uses" if name in (TASK_ATTEMPT, ROW) else self.problem_of(name)
            if problem:
                raise _refused(given, f"column {name!r} {problem}", "Rename it")
            if name.casefold() in [other.casefold() for other in names[:number]]:
                raise _refused(
                    given, f"it has two columns {name!r} that differ only in upper and lower case", "Rename one of them"
                )
        for name in self.key:
            if name not in names:
                raise _refused(given, f"its input has no column {name!r} of the key", f"It has {', '.join(names)}")


def _refused(given: SinkInput, problem: str, advice: str) -> SinkInputError:
    return SinkInputError(sink=given.uid, problem=problem, advice=advice)
