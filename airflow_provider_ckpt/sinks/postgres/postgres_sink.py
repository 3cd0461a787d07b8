"""A table of PostgreSQL, released checkpoint by checkpoint, each in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from airflow_provider_ckpt.connections.environment import read_connection
from airflow_provider_ckpt.sinks.database.failures import driver_missing
from airflow_provider_ckpt.sinks.errors import InvalidSinkError, SinkInputError
from airflow_provider_ckpt.sinks.postgres.names import PART, ROW, parse_table, problem_of
from airflow_provider_ckpt.sinks.postgres.settings import Settings
from airflow_provider_ckpt.sinks.postgres.type_fit import made_for, shown
from airflow_provider_ckpt.sinks.sink import BoundSink, Sink, SinkContext, SinkInput

Mode = Literal["append", "upsert", "replace"]


@dataclass(frozen=True)
class PostgresSink(Sink):
    """Writes rows to a table of PostgreSQL 14 or newer. Needs the extra ``postgres``, where drivers and executors run.

    ``table``: ``schema.table``; names are exact. ``conn_id``: an Airflow connection, which a driver finds in its
    environment (``conn_ids=`` of the operator), or ``url``: ``postgresql://user:password@host/database``. ``create``: a
    table that is not there is made, of the rows' schema.

    ``mode``: what a release does. ``append`` inserts; ``upsert`` replaces the row of the same ``key``, or inserts it:
    the table needs a unique constraint on exactly these columns; ``replace`` empties the table with the job's first
    release, whoever wrote what is there, and inserts from then on.

    ``staging_schema``: of the ledger and of what is staged; made if it is not there. Executors copy rows into a table
    of its own for each batch; the release moves them.
    """

    table: str
    mode: Mode = "append"
    key: Sequence[str] = ()
    conn_id: str | None = None
    url: str | None = field(default=None, repr=False)
    create: bool = False
    staging_schema: str = "ckpt"

    changeable: ClassVar[frozenset[str]] = frozenset({"conn_id", "create"})
    """A connection may get another name. That it leads to the same database the ledger tells."""

    @property
    def settings(self) -> Settings:
        """Of one that is valid."""
        return Settings(parse_table(self.table), self.mode, tuple(self.key), self.create, self.staging_schema)

    def validate(self) -> None:
        if not isinstance(self.table, str):
            raise self._invalid("table", self.table, "is no text; write schema.table")
        try:
            parse_table(self.table)
        except ValueError as error:
            raise self._invalid("table", self.table, str(error)) from None
        if self.mode not in get_args(Mode):
            raise self._invalid("mode", self.mode, f"is unknown; use one of {', '.join(get_args(Mode))}")
        problem = problem_of(self.staging_schema)
        if problem:
            raise self._invalid("staging_schema", self.staging_schema, problem)
        self._validate_key()
        if (self.conn_id is None) == (self.url is None):
            raise self._invalid("conn_id", self.conn_id, "and url: give one of the two")
        if self.url is not None and not self.url.startswith(("postgresql://", "postgres://")):
            raise self._invalid("url", "***", "does not begin with postgresql://")

    def _validate_key(self) -> None:
        key = list(self.key)
        if isinstance(self.key, str):
            raise self._invalid("key", self.key, "is a string; give a list of column names")
        if bool(key) is not (self.mode == "upsert"):
            reason = "is needed for upsert: by which columns is a row found again?" if not key else "is for upsert only"
            raise self._invalid("key", key, reason)
        if len(set(key)) < len(key):
            raise self._invalid("key", key, "names a column twice")

    def _invalid(self, setting: str, value: object, reason: str) -> InvalidSinkError:
        return InvalidSinkError(sink="PostgresSink", setting=setting, value=value, reason=reason)

    def definition(self) -> dict[str, Any]:
        return {
            **super().definition(),
            "table": str(self.settings.table),
            "mode": self.mode,
            "key": list(self.key),
            "staging_schema": self.staging_schema,
            "conn_id": self.conn_id,
            "create": self.create,
        }

    def check_input(self, given: SinkInput) -> None:
        if not given.columns:
            raise _refused(given, "its input has no columns", "Select at least one")
        if given.output_mode != "append" and self.mode != "upsert":
            problem = (
                f"output mode {given.output_mode!r} gives a row again when it changes, and mode={self.mode!r} adds it"
            )
            raise _refused(given, problem, 'Use mode="upsert" with a key')
        self._check_names(given)
        for name, kind in given.columns:
            if made_for(kind) is None:
                problem = f"column {name!r} is of type {shown(kind)}, which no column of PostgreSQL holds as it is"
                raise _refused(given, problem, "Cast it to another type, or leave it out")

    def _check_names(self, given: SinkInput) -> None:
        names = [name for name, _ in given.columns]
        for number, name in enumerate(names):
            problem = "is a name of ours" if name in (PART, ROW) else problem_of(name)
            if problem:
                raise _refused(given, f"column {name!r} {problem}", "Rename it")
            if name.casefold() in [other.casefold() for other in names[:number]]:
                raise _refused(
                    given, f"it has two columns {name!r}, but for upper and lower case", "Rename one of them"
                )
        for name in self.key:
            if name not in names:
                raise _refused(given, f"its input has no column {name!r} of the key", f"It has {', '.join(names)}")

    def bind(self, context: SinkContext) -> BoundSink:
        self.validate()
        try:
            from airflow_provider_ckpt.sinks.postgres.address import Address
            from airflow_provider_ckpt.sinks.postgres.bound_postgres_sink import BoundPostgresSink
            from airflow_provider_ckpt.sinks.postgres.database import Database
        except ModuleNotFoundError as error:
            if error.name != "psycopg":
                raise
            raise driver_missing("PostgresSink", "psycopg", "postgres") from None
        if self.url is not None:
            address = Address.of_url(self.url)
            if address is None:
                raise self._invalid("url", "***", "cannot be read: are user and password quoted (%40 for an @)?")
        else:
            address = Address.of_connection(read_connection(str(self.conn_id)))
        return BoundPostgresSink(self.settings, context, Database(address))


def _refused(given: SinkInput, problem: str, advice: str) -> SinkInputError:
    return SinkInputError(sink=given.uid, problem=problem, advice=advice)
