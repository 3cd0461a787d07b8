"""SQLAlchemy's objects for tables, and a splitter for long lists of values in statements.

The dialect quotes every name, and no name is put into an SQL text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, MetaData, String, Table
from sqlalchemy.dialects import mysql
from sqlalchemy.sql.elements import quoted_name
from sqlalchemy.types import UserDefinedType

from airflow_provider_ckpt.sinks.database.names import ROW, TASK_ATTEMPT, TableName

_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


class Declared(UserDefinedType[Any]):
    """A column type in the catalog's spelling."""

    cache_ok = True

    def __init__(self, definition: str) -> None:
        self.definition = definition

    def get_col_spec(self, **_: Any) -> str:
        return self.definition


def named(text: str) -> quoted_name:
    return quoted_name(text, True)


def new_table(
    name: TableName,
    columns: Sequence[tuple[str, str, bool]],
    key: Sequence[str] = (),
    checks: Sequence[str] = (),
) -> Table:
    """Return the object of a new table. ``columns``: (name, type, True if NOT NULL). ``checks``: CHECKs, as SQL."""
    sql_columns: list[Column[Any]] = [
        # NULL is written explicitly, because a TIMESTAMP of older servers is NOT NULL by default and turns NULL into
        # the current time.
        Column(
            named(column),
            Declared(kind if not_null else f"{kind} NULL"),
            nullable=not not_null,
            primary_key=column in key,
            autoincrement=False,
        )
        for column, kind, not_null in columns
    ]
    return Table(
        named(name.name),
        MetaData(),
        *sql_columns,
        *(CheckConstraint(check) for check in checks),
        schema=named(name.schema),
        **_OPTIONS,
    )


def existing_table(name: TableName, columns: Sequence[str]) -> Table:
    """Return an object for an existing table, with the columns that a statement names."""
    sql_columns: list[Column[Any]] = [Column(named(column)) for column in columns]
    return Table(named(name.name), MetaData(), *sql_columns, schema=named(name.schema))


def staging_columns(columns: Sequence[tuple[str, str, bool]]) -> list[tuple[str, str, bool]]:
    return [*columns, (TASK_ATTEMPT, "bigint", True), (ROW, "bigint", True)]


class LedgerTables:
    """The ledger's tables in one schema. The table ``format`` contains their version."""

    def __init__(self, schema: str) -> None:
        self._schema, self._metadata = named(schema), MetaData()
        sink_key = (("job", 200), ("sink", 100))
        handle = ("handle", 255)
        self.format = self._table("format", (("format", 100),), Column("version", Integer, nullable=False))
        self.ledger = self._table(
            "ledger",
            sink_key,
            Column("target", _target(), nullable=False),
            Column("mode", _ascii(10), nullable=False),
            Column("born", _ascii(32), nullable=False),
            Column("last", BigInteger, nullable=False),
            Column("rows", BigInteger, nullable=False),
            Column("superseded_by", _ascii(200)),
        )
        self.released = self._table("released", (*sink_key, handle), Column("checkpoint", BigInteger, nullable=False))
        self.staged = self._table("staged", (*sink_key, handle), Column("staging", _ascii(64), nullable=False))
        self.targets = self._table("targets", (), Column("target", _target(), primary_key=True))

    def _table(self, name: str, key: Sequence[tuple[str, int]], *other_columns: Column[Any]) -> Table:
        keys = [Column(column, _ascii(size), primary_key=True, autoincrement=False) for column, size in key]
        return Table(f"ckpt_{name}", self._metadata, *keys, *other_columns, schema=self._schema, **_OPTIONS)

    @property
    def all(self) -> Mapping[str, Table]:
        """The ledger's tables by name. The table ``format`` is last, because its row marks that all tables exist."""
        return {
            str(table.name): table for table in (self.targets, self.staged, self.released, self.ledger, self.format)
        }


def _ascii(size: int) -> String:
    """Return a column type for ids, which are ASCII and compared byte by byte."""
    return String(size).with_variant(mysql.VARCHAR(size, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")


def _target() -> String:
    return String(300)


MAX_VALUES = 900
"""Maximum number of values in one statement. SQLite before 3.32 accepts 999; MySQL's packets hold far more."""


def portions(texts: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(texts), MAX_VALUES):
        yield list(texts[start : start + MAX_VALUES])
