"""What a sink was told, read."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.sinks.postgres.names import TableName


@dataclass(frozen=True)
class Settings:
    """Of a PostgresSink; see there. ``schema``: of the ledger and what is staged."""

    table: TableName
    mode: str
    key: tuple[str, ...]
    create: bool
    schema: str
