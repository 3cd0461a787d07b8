"""What the catalog says of the table that a sink releases to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.database.table_checks import Problem, TargetColumn


@dataclass(frozen=True)
class SqlColumn(TargetColumn):
    """``definition``: its type with character set and collation, as CREATE TABLE takes it. ``charset``: None if it
    holds no text. ``characters``, ``octets``: what a value may have; None: no such limit."""

    definition: str = ""
    charset: str | None = None
    characters: int | None = None
    octets: int | None = None


@dataclass(frozen=True)
class SqlTable:
    """``refusal``: why it is no table that keeps rows, for people; None if it is one. ``uniques``: name of each unique
    index → its columns; empty if it is by a part of a column, by an expression, or for some rows only. ``checks``: its
    CHECKs, as SQL."""

    refusal: str | None
    columns: Mapping[str, SqlColumn]
    uniques: Mapping[str, frozenset[str]] = field(default_factory=dict)
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TriggerWrites:
    """Tables that the triggers of one table write to, also by way of routines, views and triggers of other tables.

    ``unsafe``: (trigger, table, engine) for each table whose engine does not undo what was not committed. ``unknown``:
    triggers whose statements, or whose tables, the user of the connection may not see.
    """

    unsafe: tuple[tuple[str, TableName, str], ...] = ()
    unknown: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        for trigger, table, engine in self.unsafe:
            problem = (
                f"its trigger {trigger} writes to {table}, whose engine {engine} does not undo what a rolled back "
                "release has written, and a release that is tried again writes it twice"
            )
            yield problem, f"ALTER TABLE {table} ENGINE=InnoDB, or drop the trigger"
