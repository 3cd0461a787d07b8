"""Staging tables of PostgreSQL: created like the target, and filled by executors.

Executors send rows in PostgreSQL's binary form. An encoder of the Arrow project silently wrote wrong decimals
(arrow-adbc 4507). So each executor first encodes known rows of each type, and compares the bytes with PostgreSQL's own.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow
from psycopg import sql

from airflow_provider_ckpt.sinks.database.names import ROW, TASK_ATTEMPT, TableName
from airflow_provider_ckpt.sinks.database.sink_errors import Failures
from airflow_provider_ckpt.sinks.database.table_checks import Columns
from airflow_provider_ckpt.sinks.postgres.copying import copier
from airflow_provider_ckpt.sinks.postgres.database import TRANSACTION_SETTINGS, Connection, Database, is_transient
from airflow_provider_ckpt.sinks.postgres.refusals import explanation_of
from airflow_provider_ckpt.sinks.postgres.target_table import TargetTable
from airflow_provider_ckpt.sinks.postgres.type_fit import binary_expression, column_type_for, text_expression
from airflow_provider_ckpt.sinks.sink import StageRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VALUES: dict[str, Sequence[Any]] = {
    "bool": [True, False, None],
    "int16": [-32768, 258, None],
    "int32": [-2147483648, 16909060, None],
    "int64": [-9223372036854775808, 72623859790382856, None],
    "float": [-0.5, 3.0, None],
    "double": [1e-300, -1e300, None],
    "string": ["", '\N{GRINNING FACE}"\\,\n', None],
    "binary": [b"", b"\x00\xff\\", None],
    "date32": [-719162, 2932896, None],
    "timestamp[us]": [-62135596800000000, 253402300799999999, None],
    "decimal128(18, 6)": ["5000000000.000001", "-0.000100", None],
    "decimal128(38, 10)": ["1234567890123456789012345678.0000000001", "-10000.0000000000", None],
}
_BYTES = (
    "5047434f50590aff0d0a000000000000000000000c000000010100000002800000000004800000000000000880000000000000000000"
    "0004bf0000000000000801a56e1fc2f8f359000000000000000000000004fff4dbf900000008ff1fe2ffc59c60000000001200050002"
    "00000006003200000000000000640000001c000a00060000000a04d2162e23340d801ed204d2162e000000000064000c000000010000"
    "00000201020000000401020304000000080102030405060708000000044040000000000008fe37e43c8800759c00000008f09f988022"
    "5c2c0a0000000300ff5c00000004002c95d3000000080380e70b913b7fff0000000a0001ffff4000000600010000000a000100014000"
    "000a0001000cffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffff"
)


def known_rows() -> tuple[pyarrow.RecordBatch, bytes]:
    """Return a batch with a column for each type, and what PostgreSQL's ``COPY … (FORMAT binary)`` writes for it."""
    columns = [_column(name, values) for name, values in _VALUES.items()]
    return pyarrow.RecordBatch.from_arrays(columns, names=list(_VALUES)), bytes.fromhex(_BYTES)


def _column(name: str, values: Sequence[Any]) -> pyarrow.Array:
    if not name.startswith("decimal128"):
        kind = pyarrow.type_for_alias(name)
        numbers = {"date32": pyarrow.int32(), "timestamp[us]": pyarrow.int64()}
        return pyarrow.array(values, numbers.get(name, kind)).view(kind)
    precision, scale = map(int, name[len("decimal128(") : -1].split(","))
    exact = [None if value is None else decimal.Decimal(value) for value in values]
    return pyarrow.array(exact, pyarrow.decimal128(precision, scale))


def create_target(connection: Connection, table: TableName, columns: Columns, key: Sequence[str]) -> None:
    """Create the target for rows of these columns. Key columns are NOT NULL."""
    parts = [
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(str(column_type_for(kind)))) for name, kind in columns
    ]
    if key:
        parts.append(sql.SQL("PRIMARY KEY ({})").format(identifiers(key)))
    statement = sql.SQL("CREATE TABLE {} ({})").format(
        sql.Identifier(table.schema, table.name), sql.SQL(", ").join(parts)
    )
    connection.execute(statement)


def own_columns(mode: str) -> tuple[str, ...]:
    """Return the columns that the sink adds to a staging table. Only an upsert needs the row's number."""
    return (TASK_ATTEMPT, ROW) if mode == "upsert" else (TASK_ATTEMPT,)


def create_staging(
    connection: Connection,
    staging: sql.Identifier,
    table: TableName,
    target: TargetTable,
    columns: Columns,
    extra_columns: Sequence[str],
) -> None:
    """Create a logged staging table with the target's types, CHECKs and NOT NULLs.

    The database thus refuses a row before its batch is acknowledged. ``extra_columns``: see :func:`own_columns`.
    """
    names = {name for name, _ in columns}
    like = sql.Identifier(table.schema, table.name)
    connection.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING CONSTRAINTS)").format(staging, like))
    changes = [sql.SQL("DROP COLUMN {}").format(sql.Identifier(name)) for name in target.columns if name not in names]
    changes += [sql.SQL("ADD COLUMN {} bigint NOT NULL").format(sql.Identifier(name)) for name in extra_columns]
    connection.execute(sql.SQL("ALTER TABLE {} {}").format(staging, sql.SQL(", ").join(changes)))


def copy_rows(
    frame: DataFrame,
    request: StageRequest,
    database: Database,
    staging: sql.Identifier,
    columns: Columns,
    types: Mapping[str, str],
    extra_columns: Sequence[str],
    failures: Failures,
) -> list[dict[str, Any]]:
    """Copy the rows and return ``task_attempt`` and ``rows`` of each successful task. Reads the frame once (R18).

    Raises RowsRefusedError, SinkUnavailableError, and the errors of the frame itself.
    """
    names = [name for name, _ in columns]
    typed = [(name, kind, types[name]) for name, kind in columns]
    binary = [expression for column in typed if (expression := binary_expression(*column)) is not None]
    is_binary = len(binary) == len(typed)
    written = frame.selectExpr(
        *(
            [expression for expression, _ in binary]
            if is_binary
            else [text_expression(*expression) for expression in typed]
        )
    )
    copy = sql.SQL("COPY {} ({}) FROM STDIN").format(staging, identifiers([*names, *extra_columns])).as_string(None)
    run = copier(
        database.parameters("ckpt stage"),
        [*TRANSACTION_SETTINGS, copy],
        database.timeout,
        arrow_types=[arrow for _, arrow in binary] if is_binary else None,
        sample=known_rows(),
        numbers_rows=ROW in extra_columns,
    )
    results: list[dict[str, Any]] = request.over_partitions(written, run)
    errors = [result["error"] for result in results if "error" in result]
    for error in errors:
        if not is_transient(error["sqlstate"]):
            explanation = explanation_of(error["sqlstate"])
            raise failures.rows_refused(
                _error_text(error) if explanation is None else f"{explanation[0]} ({_error_text(error)})"
            )
    for error in errors:
        raise failures.unreachable("stage a batch from an executor", _error_text(error))
    return results


def _error_text(error: dict[str, Any]) -> str:
    state = "no answer" if error["sqlstate"] is None else f"SQLSTATE {error['sqlstate']}"
    details = [f"{name} {error[name]}" for name in ("column", "constraint") if error[name]]
    return ", ".join([state, error["error"], *details])


def identifiers(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
