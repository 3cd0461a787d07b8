"""What the catalog says of the table that a sink releases to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.sinks.database.table_checks import TargetColumn


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
