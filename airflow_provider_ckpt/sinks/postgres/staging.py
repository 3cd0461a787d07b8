"""Staging tables of PostgreSQL: made like the target, and filled by executors with each row's task attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from airflow_provider_ckpt.sinks.database.failures import Failures
from airflow_provider_ckpt.sinks.database.names import PART, ROW, TableName
from airflow_provider_ckpt.sinks.database.table_checks import Columns
from airflow_provider_ckpt.sinks.postgres.copying import copier
from airflow_provider_ckpt.sinks.postgres.database import SETTLE, Database, is_passing
from airflow_provider_ckpt.sinks.postgres.known_rows import known_rows
from airflow_provider_ckpt.sinks.postgres.refusals import meaning
from airflow_provider_ckpt.sinks.postgres.target_table import TargetTable
from airflow_provider_ckpt.sinks.postgres.type_fit import as_written, as_written_in_binary, made_for
from airflow_provider_ckpt.sinks.sink import StageRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Connection = psycopg.Connection[Any]


def create_target(connection: Connection, table: TableName, columns: Columns, key: Sequence[str]) -> None:
    """Create the target for rows of these columns. Its key columns are NOT NULL."""
    parts = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(str(made_for(kind)))) for name, kind in columns]
    if key:
        parts.append(sql.SQL("PRIMARY KEY ({})").format(_names(key)))
    made = sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(table.schema, table.name), sql.SQL(", ").join(parts))
    connection.execute(made)


def own_columns(mode: str) -> tuple[str, ...]:
    """Return the sink's own columns of a staging table.

    Only an upsert needs the order of rows in a batch, and a column adds some percent to the work of writing.
    """
    return (PART, ROW) if mode == "upsert" else (PART,)


def create_staging(
    connection: Connection,
    staging: sql.Identifier,
    table: TableName,
    target: TargetTable,
    columns: Columns,
    own: Sequence[str],
) -> None:
    """Create a logged staging table with the target's own types, CHECKs and NOT NULLs.

    So a row that the target refuses is refused before its batch is acknowledged.

    Args:
        connection: in a transaction.
        staging: name of the staging table.
        table: name of the target.
        target: the target in the catalog.
        columns: columns of the rows.
        own: see :func:`own_columns`.
    """
    given = {name for name, _ in columns}
    like = sql.Identifier(table.schema, table.name)
    connection.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING CONSTRAINTS)").format(staging, like))
    changes = [sql.SQL("DROP COLUMN {}").format(sql.Identifier(name)) for name in target.columns if name not in given]
    changes += [sql.SQL("ADD COLUMN {} bigint NOT NULL").format(sql.Identifier(name)) for name in own]
    connection.execute(sql.SQL("ALTER TABLE {} {}").format(staging, sql.SQL(", ").join(changes)))


def copy_rows(
    frame: DataFrame,
    request: StageRequest,
    database: Database,
    staging: sql.Identifier,
    columns: Columns,
    types: Mapping[str, str],
    own: Sequence[str],
    failures: Failures,
) -> list[dict[str, Any]]:
    """Copy the rows and return (part, rows) of each partition that Spark counts. Reads the frame once (R18).

    ``types``: types of the staging table's columns.

    Raises RowsRefusedError, DatabaseUnreachableError, and the errors of the frame itself.
    """
    names = [name for name, _ in columns]
    typed = [(name, kind, types[name]) for name, kind in columns]
    binary = [one for column in typed if (one := as_written_in_binary(*column)) is not None]
    is_binary = len(binary) == len(typed)
    written = frame.selectExpr(*([one for one, _ in binary] if is_binary else [as_written(*one) for one in typed]))
    copy = sql.SQL("COPY {} ({}) FROM STDIN").format(staging, _names([*names, *own])).as_string(None)
    run = copier(
        database.parameters("ckpt stage"),
        [*SETTLE, copy],
        database.patience,
        arrow_types=[arrow for _, arrow in binary] if is_binary else None,
        known=known_rows(),
        numbers_rows=ROW in own,
    )
    answers: list[dict[str, Any]] = request.over_partitions(written, run)
    failed = [one["error"] for one in answers if "error" in one]
    for error in failed:
        if not is_passing(error["sqlstate"]):
            found = meaning(error["sqlstate"])
            raise failures.rows_refused(_told(error) if found is None else f"{found[0]} ({_told(error)})")
    for error in failed:
        raise failures.unreachable("stage a batch from an executor", _told(error))
    return answers


def _told(error: dict[str, Any]) -> str:
    state = "no answer" if error["sqlstate"] is None else f"SQLSTATE {error['sqlstate']}"
    more = [f"{name} {error[name]}" for name in ("column", "constraint") if error[name]]
    return ", ".join([state, error["error"], *more])


def _names(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
