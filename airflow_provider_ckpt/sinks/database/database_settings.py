"""The parsed settings of a database sink."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.sinks.database.names import TableName


@dataclass(frozen=True)
class DatabaseSettings:
    """The settings of a database sink. ``schema`` is the schema of the ledger and the staging tables."""

    table: TableName
    mode: str
    key: tuple[str, ...]
    create: bool
    schema: str
