"""The database that an address leads to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_ckpt.sinks.sql.address import Address
from airflow_provider_ckpt.sinks.sql.database import Database
from airflow_provider_ckpt.sinks.sql.mysql_dialect import MySQLDialect
from airflow_provider_ckpt.sinks.sql.sqlite_dialect import SQLiteDialect


def opened(address: Address, connect: Callable[..., Any] | None = None) -> Database:
    """``connect``: in place of the driver's."""
    return Database(address, MySQLDialect() if address.kind == "mysql" else SQLiteDialect(), connect)
