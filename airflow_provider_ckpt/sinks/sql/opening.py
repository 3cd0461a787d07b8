"""A function that opens the database of an address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_ckpt.sinks.sql.address import Address
from airflow_provider_ckpt.sinks.sql.database import Database
from airflow_provider_ckpt.sinks.sql.mysql_dialect import MySQLDialect
from airflow_provider_ckpt.sinks.sql.sqlite_dialect import SQLiteDialect


def opened(address: Address, connect: Callable[..., Any] | None = None) -> Database:
    """Return the database. ``connect`` replaces the driver's function."""
    return Database(address, MySQLDialect() if address.kind == "mysql" else SQLiteDialect(), connect)
