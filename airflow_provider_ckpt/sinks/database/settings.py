"""What a sink was told, read."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.sinks.database.names import TableName


@dataclass(frozen=True)
class Settings:
    """Of a sink of a database; see there. ``schema``: of the ledger and what is staged."""

    table: TableName
    mode: str
    key: tuple[str, ...]
    create: bool
    schema: str
