"""The sink's own tables in MySQL or SQLite.

A release moves a batch's rows to the target and adds its handle to ``ckpt_released`` in one transaction. MySQL commits
with each CREATE and DROP. So a batch is recorded in ``ckpt_staged`` before its staging table is created. That record is
deleted after the table is gone. A process that creates or drops a staging table holds the lock of the table's record.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, exists, or_, select, update
from sqlalchemy.schema import CreateTable

from airflow_provider_ckpt.sinks.database.ledger import Ledger
from airflow_provider_ckpt.sinks.database.ledger_rules import LedgerRow
from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.database.sink_errors import ledger_version_error
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.sinks.sql.dialect import Dialect
from airflow_provider_ckpt.sinks.sql.tables import LedgerTables, portions

VERSION = 1
FORMAT = "airflow-provider-ckpt/sql-ledger"


@dataclass(frozen=True)
class SqlLedger(Ledger[Connection]):
    """The ledger of one sink of one job, in one schema."""

    schema: str
    context: SinkContext
    target: TableName
    mode: str
    dialect: Dialect

    @cached_property
    def tables(self) -> LedgerTables:
        return LedgerTables(self.schema)

    @property
    def _sink_key(self) -> dict[str, str]:
        return {"job": self.context.job_id, "sink": self.context.uid}

    def _own_rows(self, table: Table) -> ColumnElement[bool]:
        return and_(table.c.job == self.context.job_id, table.c.sink == self.context.uid)

    # ---- making

    def create(self, connection: Connection, entry_id: str) -> None:
        """Create the ledger's tables and this sink's entry, if they are absent.

        MySQL commits after each table. A row in ``ckpt_format`` marks that all tables exist.
        """
        if not self.exists(connection):
            for table in self.tables.all.values():
                connection.execute(CreateTable(table, if_not_exists=True))
            format_row = {"format": FORMAT, "version": VERSION}
            connection.execute(self.dialect.insert_absent(self.tables.format, format_row))
        self._check_version(connection)
        connection.execute(self.dialect.insert_absent(self.tables.targets, {"target": str(self.target)}))
        row = {"target": str(self.target), "mode": self.mode, "born": entry_id, "last": 0, "rows": 0}
        ledger = self.tables.ledger
        connection.execute(self.dialect.insert_absent(ledger, {**self._sink_key, **row}))
        differs = or_(ledger.c.target != row["target"], ledger.c.mode != self.mode)
        moved = update(ledger).where(self._own_rows(ledger), ledger.c.last == 0, differs)
        connection.execute(moved.values(target=row["target"], mode=self.mode))

    def exists(self, connection: Connection) -> bool:
        """Return True if the whole ledger exists. An unfinished preparation may have created only some tables."""
        names = self.tables.all
        if len(self.dialect.sizes(connection, self.schema, list(names))) < len(names):
            return False
        return self._version(connection) is not None

    def _version(self, connection: Connection) -> int | None:
        table = self.tables.format
        return connection.execute(select(table.c.version).where(table.c.format == FORMAT)).scalar()

    def _check_version(self, connection: Connection) -> None:
        version = self._version(connection)
        if version != VERSION:
            raise ledger_version_error(f"{self.schema}.{self.tables.ledger.name}", version, VERSION)

    def unsafe_tables(self, connection: Connection) -> list[str]:
        """Return the ledger's tables whose engine has no transactions."""
        return self.dialect.unsafe_tables(connection, self.schema, list(self.tables.all))

    # ---- releases

    def row(self, connection: Connection, *, lock: bool = False) -> LedgerRow | None:
        if not self.exists(connection):
            return None
        self._check_version(connection)
        table = self.tables.ledger
        columns = [table.c[name] for name in ("born", "last", "rows", "superseded_by", "target", "mode")]
        query = select(*columns).where(self._own_rows(table))
        if lock:
            query = query.with_for_update()
        row = connection.execute(query).one_or_none()
        return None if row is None else LedgerRow(*row)

    def lock_target(self, connection: Connection, *, exclusive: bool) -> None:
        table = self.tables.targets
        query = select(table.c.target).where(table.c.target == str(self.target))
        connection.execute(query.with_for_update(read=not exclusive)).all()

    def released(self, connection: Connection, handles: Sequence[str]) -> set[str]:
        table, handles_found = self.tables.released, set[str]()
        for portion in portions(handles):
            query = select(table.c.handle).where(self._own_rows(table), table.c.handle.in_(portion))
            handles_found |= set(connection.execute(query).scalars())
        return handles_found

    def record_release(self, connection: Connection, handles: Collection[str], checkpoint: int, rows: int) -> None:
        if handles:
            records: list[dict[str, Any]] = [
                {**self._sink_key, "handle": handle, "checkpoint": checkpoint} for handle in handles
            ]
            connection.execute(self.dialect.insert(self.tables.released), records)
        table = self.tables.ledger
        values = {"last": checkpoint, "rows": rows, "target": str(self.target), "mode": self.mode}
        connection.execute(update(table).where(self._own_rows(table)).values(values))

    def forget_released(self, connection: Connection, upto: int) -> None:
        """Delete the records of old handles whose staging tables are dropped.

        While a staging table exists, only the record of its handle shows that its rows were released.
        """
        table, staged = self.tables.released, self.tables.staged
        undropped = select(staged.c.handle).where(self._own_rows(staged))
        old = and_(self._own_rows(table), table.c.checkpoint <= upto, table.c.handle.not_in(undropped))
        connection.execute(delete(table).where(old))

    def has_other_sink_released(self, connection: Connection) -> bool:
        table = self.tables.ledger
        other_sinks = and_(table.c.job == self.context.job_id, table.c.sink != self.context.uid)
        query = select(exists().where(other_sinks, table.c.target == str(self.target), table.c.last > 0))
        return bool(connection.execute(query).scalar_one())

    def supersede(self, connection: Connection) -> None:
        table = self.tables.ledger
        other_jobs = and_(table.c.job != self.context.job_id, table.c.target == str(self.target))
        released = or_(table.c.last > 0, table.c.mode == "replace")
        changed = update(table).where(other_jobs, table.c.superseded_by.is_(None), released)
        connection.execute(changed.values(superseded_by=self.context.job_id))

    # ---- staged batches

    def record_staged(self, connection: Connection, handle: str, staging: str) -> None:
        record = {**self._sink_key, "handle": handle, "staging": staging}
        connection.execute(self.dialect.insert(self.tables.staged).values(record))

    def lock_staged(self, connection: Connection, handle: str) -> bool:
        """Lock a batch's record, so that no other process creates or drops its staging table.

        Return False if the batch has no record.
        """
        table = self.tables.staged
        query = select(table.c.handle).where(self._own_rows(table), table.c.handle == handle).with_for_update()
        return connection.execute(query).one_or_none() is not None

    def forget_staged(self, connection: Connection, handle: str) -> None:
        table = self.tables.staged
        connection.execute(delete(table).where(self._own_rows(table), table.c.handle == handle))

    def staged(self, connection: Connection) -> dict[str, tuple[str, int]]:
        if not self.exists(connection):
            return {}
        table = self.tables.staged
        query = select(table.c.handle, table.c.staging).where(self._own_rows(table)).order_by(table.c.handle)
        tables = {row.handle: row.staging for row in connection.execute(query)}
        sizes = self.dialect.sizes(connection, self.schema, list(tables.values()))
        return {handle: (staging, sizes.get(staging, -1)) for handle, staging in tables.items()}

    def undropped(self, connection: Connection) -> list[str]:
        if not self.exists(connection):
            return []
        staged, released = self.tables.staged, self.tables.released
        same = and_(*(staged.c[name] == released.c[name] for name in ("job", "sink", "handle")))
        query = select(staged.c.handle).select_from(staged.join(released, same)).where(self._own_rows(staged))
        return list(connection.execute(query).scalars())
