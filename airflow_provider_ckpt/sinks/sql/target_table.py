"""The description of the target table, read from the catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.database.table_checks import Problem, TargetColumn


@dataclass(frozen=True)
class SqlColumn(TargetColumn):
    """The properties of one column of the target, from the catalog.

    Args:
        definition: type with character set and collation, as in CREATE TABLE.
        charset: character set; None if the column holds no text.
        characters: maximum number of characters of a value; None means no limit.
        octets: maximum number of bytes of a value; None means no limit.
    """

    definition: str = ""
    charset: str | None = None
    characters: int | None = None
    octets: int | None = None


@dataclass(frozen=True)
class SqlTable:
    """The properties of the target table, from the catalog.

    Args:
        refusal: why the table cannot store rows, as text for messages; None if it can.
        uniques: unique index -> its columns; empty for an index on an expression, a part of a column or some rows only.
        checks: the CHECK constraints of the table, as SQL.
    """

    refusal: str | None
    columns: Mapping[str, SqlColumn]
    uniques: Mapping[str, frozenset[str]] = field(default_factory=dict)
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TriggerWrites:
    """The tables to which the triggers of one table write, also through routines, views and triggers of other tables.

    Args:
        unsafe: (trigger, table, engine) of tables whose engine cannot roll back.
        unknown: triggers whose statements or tables the user of the connection may not see.
    """

    unsafe: tuple[tuple[str, TableName, str], ...] = ()
    unknown: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        for trigger, table, engine in self.unsafe:
            problem = (
                f"its trigger {trigger} writes to {table}, whose engine {engine} keeps the rows of a rolled back "
                "release, so a release that is tried again writes them twice"
            )
            yield problem, f"ALTER TABLE {table} ENGINE=InnoDB, or drop the trigger"
