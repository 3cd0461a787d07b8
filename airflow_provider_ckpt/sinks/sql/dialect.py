"""What differs between the databases of a SqlSink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Table, TextClause
from sqlalchemy.sql.dml import Insert

from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.database.table_checks import Problem
from airflow_provider_ckpt.sinks.sql.target_table import SqlTable, TriggerWrites


class Dialect(ABC):
    """``name``: for people. ``url``: by which SQLAlchemy knows it. ``ddl_commits``: a CREATE or DROP commits what its
    transaction has done. ``triggers_skip_rows``: a trigger can skip a row that is inserted, updated or deleted, without
    an error. ``names_key``: an upsert names the unique index that it goes by, and any other index refuses rows."""

    name: str
    url: str
    ddl_commits: bool
    triggers_skip_rows: bool
    names_key: bool

    # ---- sessions

    @abstractmethod
    def connect_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Of the driver's ``connect``, here and on executors."""

    @abstractmethod
    def connect(self, **parameters: Any) -> Any:
        """A connection of the driver."""

    @abstractmethod
    def absence(self, parameters: Mapping[str, Any]) -> str | None:
        """Return the reason why there is no database at this address; None if the dialect knows of none."""

    @abstractmethod
    def connected(self, connect: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
        """What ``connect`` returns for them, with a limit to how long it may say nothing."""

    @abstractmethod
    def settle(self) -> Sequence[str]:
        """What every session begins with, here and on executors."""

    @abstractmethod
    def attend(self, engine: Engine) -> None:
        """See to how its transactions begin."""

    @abstractmethod
    def is_passing(self, code: int, *, is_connected: bool) -> bool:
        """Return True if another try may help.

        Args:
            code: Of the error, by ``inserting.code_of``.
            is_connected: The session was open. Without one the server refused the login, not a statement.
        """

    @abstractmethod
    def explain(
        self,
        error: Any,
        table: TableName,
        key: Collection[str],
        read: Callable[[TextClause, Mapping[str, Any]], list[Any]],
    ) -> str:
        """Return the problem that an error reports, and the advice, without values of rows.

        ``error``: of the driver. ``key``: of an upsert, else empty. ``read``: reads the catalog.
        """

    # ---- the server, and its catalog

    @abstractmethod
    def unfitness(self, connection: Connection) -> str | None:
        """Why its server or file cannot keep what the sink promises; None if it can."""

    @abstractmethod
    def schema_problem(self, connection: Connection, schema: str) -> Problem | None:
        """Why tables cannot be in that schema; None if they can."""

    @abstractmethod
    def name_problem(self, connection: Connection, table: TableName) -> Problem | None:
        """Why the server would know the table by another name; None if it knows it by this one."""

    @abstractmethod
    def sizes(self, connection: Connection, schema: str, names: Collection[str]) -> dict[str, int]:
        """Of those tables that are there, the bytes."""

    @abstractmethod
    def unsafe_tables(self, connection: Connection, schema: str, names: Collection[str]) -> list[str]:
        """Those that are there and whose changes are not undone with their transaction."""

    @abstractmethod
    def read_table(self, connection: Connection, name: TableName) -> SqlTable | None:
        """None: there is no such table."""

    @abstractmethod
    def compared_key(
        self, connection: Connection, name: TableName, staging: Table, key: Sequence[str]
    ) -> list[ColumnElement[Any]]:
        """The columns of the staging table by which its rows are of one key, as the index of the target has it."""

    @abstractmethod
    def may_leave_rows_out(self, connection: Connection, name: TableName) -> bool:
        """Whether the table has a trigger that can pass over a row that is inserted, without an error."""

    @abstractmethod
    def trigger_writes(self, connection: Connection, name: TableName, events: Collection[str]) -> TriggerWrites:
        """Read the tables that its triggers of these events (INSERT, UPDATE, DELETE) write to."""

    @abstractmethod
    def passes_over_conflicts(self, connection: Connection, name: TableName) -> bool:
        """Whether a constraint of the table leaves out what meets it, or puts it in the place of what is there."""

    @abstractmethod
    def lacking_rights(
        self, connection: Connection, table: Table, columns: Sequence[str], needed: Collection[str]
    ) -> Iterator[str]:
        """Of SELECT, INSERT, UPDATE, DELETE those that the user does not have. Changes nothing."""

    @abstractmethod
    def lacking_to_stage(self, connection: Connection, name: TableName) -> Iterator[str]:
        """The rights that the user lacks to stage rows where that table would be. ``name``: of none that is there."""

    # ---- types and statements

    @abstractmethod
    def fits(self, kind: Any, column: str) -> bool: ...

    @abstractmethod
    def made_for(self, connection: Connection, kind: Any, *, is_key: bool) -> str | None:
        """The type of a column that is made for such values; None if there is none."""

    @abstractmethod
    def insert(self, table: Table) -> Insert: ...

    @abstractmethod
    def overruling(self, insert: Insert) -> Insert:
        """One that fails for what is there already, though the table :meth:`passes_over_conflicts`."""

    @abstractmethod
    def insert_absent(self, table: Table, values: Mapping[str, Any]) -> Insert:
        """Does nothing if its key is there."""

    @abstractmethod
    def upsert(self, table: Table, columns: Sequence[str], rows: Any, key: Sequence[str], guard: str | None) -> Insert:
        """``rows``: a SELECT with each key once. ``guard``: a column of the key that cannot be set to NULL; None if
        there is none, or if the dialect ``names_key``."""

    @abstractmethod
    def insert_text(self, table: Table) -> str:
        """For executors, see there."""
