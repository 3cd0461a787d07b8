"""The statements that move rows from staging tables to the target, inside the transaction of a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, exists, func, literal, select
from sqlalchemy.sql.dml import Insert

from airflow_provider_ckpt.sinks.database.database_settings import DatabaseSettings
from airflow_provider_ckpt.sinks.database.names import ROW, TASK_ATTEMPT, TableName
from airflow_provider_ckpt.sinks.sink import Handle
from airflow_provider_ckpt.sinks.sql.dialect import Dialect
from airflow_provider_ckpt.sinks.sql.tables import existing_table

_RANK = "_ckpt_place"


@dataclass(frozen=True)
class SqlReleaseStatements:
    """The statements of one sink's release. ``settings``: with the databases of the target and the staging tables."""

    connection: Connection
    dialect: Dialect
    settings: DatabaseSettings

    def without_table(self, handles: Sequence[Handle]) -> list[Handle]:
        existing = self.dialect.sizes(self.connection, self.settings.schema, [handle["staged"] for handle in handles])
        return [handle for handle in handles if handle["staged"] not in existing]

    def lock_definition(self) -> None:
        self.connection.execute(select(literal(1)).select_from(existing_table(self.settings.table, [])).limit(0))

    def empty(self) -> bool:
        """Delete all rows of the target; return False if a trigger keeps some. TRUNCATE is not used: it commits."""
        target = existing_table(self.settings.table, [])
        self.connection.execute(delete(target))
        if not self.dialect.triggers_skip_rows:
            return True
        return self.connection.execute(select(literal(1)).select_from(target).limit(1)).first() is None

    def move(self, handle: Handle) -> int:
        staging = self._staging(handle)
        if self.settings.mode == "upsert":
            return self._upsert(handle, staging)
        target = existing_table(self.settings.table, handle["columns"])
        selected = select(*(staging.c[name] for name in handle["columns"]))
        rows = selected.where(staging.c[TASK_ATTEMPT].in_(handle["parts"]))
        return self._inserted_rows(self.dialect.insert(target).from_select(handle["columns"], rows))

    def count(self, handle: Handle) -> int:
        return self._count_rows(_rows_to_release(self._staging(handle), handle))

    def drop(self, handle: Handle) -> None:
        """Do nothing, because a DROP would commit. The sink drops the table after the release."""

    def _staging(self, handle: Handle) -> Table:
        return existing_table(
            TableName(self.settings.schema, handle["staged"]), [*handle["columns"], TASK_ATTEMPT, ROW]
        )

    def _inserted_rows(self, insert: Insert) -> int:
        if self.dialect.skips_conflicts(self.connection, self.settings.table):
            insert = self.dialect.failing_on_conflict(insert)
        return self.connection.execute(insert).rowcount

    def _upsert(self, handle: Handle, staging: Table) -> int:
        """Upsert the rows of a batch. Return the number of staged rows, less those that did not reach the target.

        Of several rows with the same key the last row is used, so batches must be moved in order.
        """
        table, names = self.settings.table, self.settings.key
        target = existing_table(table, handle["columns"])
        key = self.dialect.compared_key(self.connection, table, staging, names)
        newest = _newest(staging, handle, key)
        inserted = self._inserted_rows(
            self.dialect.upsert(target, handle["columns"], newest, names, _guard(handle, names))
        )
        staged = _rows_to_release(staging, handle)
        staged_rows = self._count_rows(staged)
        if not self.dialect.may_skip_rows(self.connection, table):
            return staged_rows
        if set(handle["columns"]) > set(names):
            return staged_rows - (self._count_rows(newest) - inserted)
        # if all columns are key columns, rows that existed before are not written
        is_existing = exists().where(
            *(target.c[name] == key_column for name, key_column in zip(names, key, strict=True))
        )
        return staged_rows - self._count_rows(staged.where(~is_existing))

    def _count_rows(self, rows: Select[Any]) -> int:
        return int(self.connection.execute(select(func.count()).select_from(rows.subquery())).scalar_one())


def _rows_to_release(staging: Table, handle: Handle) -> Select[Any]:
    return select(staging.c[TASK_ATTEMPT]).where(staging.c[TASK_ATTEMPT].in_(handle["parts"]))


def _guard(handle: Handle, key: Sequence[str]) -> str | None:
    """Return the first key column that is no TIMESTAMP, or None. MariaDB stores the current time for a NULL there."""
    types = dict(zip(handle["columns"], handle["types"], strict=True))
    return next((name for name in key if types[name] != "timestamp"), None)


def _newest(staging: Table, handle: Handle, key: Sequence[ColumnElement[Any]]) -> Select[Any]:
    columns = [staging.c[name] for name in handle["columns"]]
    order = (staging.c[TASK_ATTEMPT].desc(), staging.c[ROW].desc())
    rank = func.row_number().over(partition_by=key, order_by=order).label(_RANK)
    ranked = select(*columns, rank).where(staging.c[TASK_ATTEMPT].in_(handle["parts"])).subquery("_ckpt_ranked")
    return select(*(ranked.c[name] for name in handle["columns"])).where(ranked.c[_RANK] == 1)
