"""Staging tables of SQL databases: created like the target, and filled by executors."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Table
from sqlalchemy.schema import CreateTable

from airflow_provider_ckpt.model.column_name import quoted
from airflow_provider_ckpt.sinks.database.names import ROW, TASK_ATTEMPT, TableName
from airflow_provider_ckpt.sinks.database.sink_errors import Failures
from airflow_provider_ckpt.sinks.database.table_checks import Columns
from airflow_provider_ckpt.sinks.sink import StageRequest
from airflow_provider_ckpt.sinks.spark_types import as_json, plain
from airflow_provider_ckpt.sinks.sql.database import Database
from airflow_provider_ckpt.sinks.sql.inserting import inserter
from airflow_provider_ckpt.sinks.sql.tables import new_table, staging_columns
from airflow_provider_ckpt.sinks.sql.target_table import SqlTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|`((?:[^`]|``)+)`", re.DOTALL)


def refers_only_to(check: str, columns: Collection[str]) -> bool:
    """Return True if the CHECK names only these columns; False if no column is found in the CHECK."""
    named = {name.replace("``", "`") for name in _QUOTED.findall(check) if name}
    return bool(named) and named <= set(columns)


def create_target(connection: Connection, table: TableName, columns: Columns, key: Sequence[str], types: Any) -> None:
    """Create the target for rows of these columns, unless another subtask has created it. Key columns are NOT NULL.

    ``types``: column -> type.
    """
    definitions = [(name, types[name], name in key) for name, _ in columns]
    connection.execute(CreateTable(new_table(table, definitions, key), if_not_exists=True))


def staging_table_of(name: TableName, target: SqlTable, columns: Columns) -> Table:
    """Return a staging table with the target's types, NOT NULLs and CHECKs, which refuse rows before the release."""
    names = [name for name, _ in columns]
    definitions = [(name, target.columns[name].definition, target.columns[name].not_null) for name in names]
    checks = [check for check in target.checks if refers_only_to(check, names)]
    return new_table(name, staging_columns(definitions), (TASK_ATTEMPT, ROW), checks)


def insert_rows(
    frame: DataFrame,
    request: StageRequest,
    database: Database,
    staging: Table,
    columns: Columns,
    target: SqlTable,
    failures: Failures,
) -> list[dict[str, Any]]:
    """Insert the rows and return ``task_attempt`` and ``rows`` of each successful task. Reads the frame once (R18).

    Raises RowsRefusedError, SinkUnavailableError, and the errors of the frame itself.
    """
    written = frame.selectExpr(*(_expression(name, kind) for name, kind in columns))
    limits = []
    for name, _ in columns:
        column = target.columns[name]
        limits.append((name, column.not_null, column.characters, column.octets))
    dialect = database.dialect
    run = inserter(
        database.address.kind,
        database.parameters,
        dialect.session_statements(),
        dialect.insert_text(staging),
        limits,
    )
    results: list[dict[str, Any]] = request.over_partitions(written, run)
    errors = [result["error"] for result in results if "error" in result]
    for error in errors:
        if not dialect.is_transient(error["code"], is_connected=error["is_connected"]):
            raise failures.rows_refused(error["text"])
    for error in errors:
        raise failures.unreachable("stage a batch from an executor", error["text"])
    return results


def _expression(name: str, kind: Any) -> str:
    return as_json(name) if isinstance(plain(kind), dict) else quoted(name)
