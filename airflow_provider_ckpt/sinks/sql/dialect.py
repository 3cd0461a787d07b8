"""The interface to the database systems that a SqlSink supports."""

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
    """A database system that a SqlSink supports.

    Args:
        name: name of the database in messages.
        url: URL prefix by which SQLAlchemy identifies the database.
        ddl_commits: True if a CREATE or DROP commits its transaction.
        triggers_skip_rows: True if a trigger can silently skip a row that is inserted, updated or deleted.
        names_key: True if an upsert names its unique index. A conflict with another unique index is then an error.
    """

    name: str
    url: str
    ddl_commits: bool
    triggers_skip_rows: bool
    names_key: bool

    # ---- sessions

    @abstractmethod
    def connect_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the database driver's ``connect``, for this process and for executors."""

    @abstractmethod
    def connect(self, **parameters: Any) -> Any:
        """Return a new connection of the database driver."""

    @abstractmethod
    def absence(self, parameters: Mapping[str, Any]) -> str | None:
        """Return why no database is at this address; None if there is one, or if only a connection can show it."""

    @abstractmethod
    def open_connection(self, connect: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
        """Return a connection that ``connect`` opens, with a timeout for a server that does not answer."""

    @abstractmethod
    def session_statements(self) -> Sequence[str]:
        """Return the first statements of every session, in this process and on executors."""

    @abstractmethod
    def configure_transactions(self, engine: Engine) -> None:
        """Configure how transactions of the SQLAlchemy engine begin."""

    @abstractmethod
    def is_transient(self, code: int, *, is_connected: bool) -> bool:
        """Return True if another try may succeed after an error with this code (:func:`.inserting.code_of`).

        ``is_connected``: True if the server refused a statement, False if it refused the login.
        """

    @abstractmethod
    def explain(
        self,
        error: Any,
        table: TableName,
        key: Collection[str],
        read: Callable[[TextClause, Mapping[str, Any]], list[Any]],
    ) -> str:
        """Return the cause of an error and advice, without values of rows. ``key``: the key of an upsert, else empty.

        ``read``: returns the rows of a query of the catalog; an empty list if the query fails.
        """

    # ---- the server, and its catalog

    @abstractmethod
    def server_problem(self, connection: Connection) -> str | None:
        """Return why the server or file cannot satisfy the sink's invariants; None if it can."""

    @abstractmethod
    def schema_problem(self, connection: Connection, schema: str) -> Problem | None:
        """Return why tables cannot be in the schema; None if they can."""

    @abstractmethod
    def name_problem(self, connection: Connection, table: TableName) -> Problem | None:
        """Return why the server would store the table under another name; None if it stores this name."""

    @abstractmethod
    def sizes(self, connection: Connection, schema: str, names: Collection[str]) -> dict[str, int]:
        """Return name -> bytes of each table in ``names`` that exists."""

    @abstractmethod
    def unsafe_tables(self, connection: Connection, schema: str, names: Collection[str]) -> list[str]:
        """Return those of the tables ``names`` that exist and cannot roll back changes."""

    @abstractmethod
    def read_table(self, connection: Connection, name: TableName) -> SqlTable | None:
        """Return the table as the catalog describes it; None if it does not exist."""

    @abstractmethod
    def compared_key(
        self, connection: Connection, name: TableName, staging: Table, key: Sequence[str]
    ) -> list[ColumnElement[Any]]:
        """Return the key columns of the staging table, with the collations of the target's index."""

    @abstractmethod
    def may_skip_rows(self, connection: Connection, name: TableName) -> bool:
        """Return True if the table has a trigger that can silently skip a row that is inserted."""

    @abstractmethod
    def trigger_writes(self, connection: Connection, name: TableName, events: Collection[str]) -> TriggerWrites:
        """Return the tables to which the target's triggers on ``events`` (INSERT, UPDATE, DELETE) write."""

    @abstractmethod
    def skips_conflicts(self, connection: Connection, name: TableName) -> bool:
        """Return True if a constraint of the table lets an INSERT skip a conflicting row or replace the old row."""

    @abstractmethod
    def lacking_rights(
        self, connection: Connection, table: Table, columns: Sequence[str], needed: Collection[str]
    ) -> Iterator[str]:
        """Yield the ``needed`` rights (SELECT, INSERT, UPDATE, DELETE) that the database user lacks. Change nothing."""

    @abstractmethod
    def lacking_to_stage(self, connection: Connection, name: TableName) -> Iterator[str]:
        """Yield the rights that the user lacks to stage rows in a schema. ``name``: an absent table in the schema."""

    # ---- types and statements

    @abstractmethod
    def fits(self, kind: Any, column: str) -> bool: ...

    @abstractmethod
    def column_type_for(self, connection: Connection, kind: Any, *, is_key: bool) -> str | None:
        """Return the type of a new column that stores values of Spark's type ``kind`` unchanged; None if none does."""

    @abstractmethod
    def insert(self, table: Table) -> Insert: ...

    @abstractmethod
    def failing_on_conflict(self, insert: Insert) -> Insert:
        """Return ``insert``, changed so that it fails on a conflict even if the table :meth:`skips_conflicts`."""

    @abstractmethod
    def insert_absent(self, table: Table, values: Mapping[str, Any]) -> Insert:
        """Return an insert of one row that does nothing if the table has a row with its primary key."""

    @abstractmethod
    def upsert(self, table: Table, columns: Sequence[str], rows: Any, key: Sequence[str], guard: str | None) -> Insert:
        """Return an upsert of ``rows``, a SELECT in which each key occurs once.

        ``guard``: a key column to which an assignment of NULL fails; None if there is none. A dialect that
        ``names_key`` ignores the argument.
        """

    @abstractmethod
    def insert_text(self, table: Table) -> str:
        """Return the text of an insert for executors, see :func:`.inserting.inserter`."""
