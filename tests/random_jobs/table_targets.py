"""Tables of random jobs, and the changes that others make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.types import LongType

from airflow_provider_ckpt import IcebergSink
from airflow_provider_ckpt.sinks.sink import Sink
from tests.random_jobs.table_cases import TableCase, Trigger
from tests.sinks.sql.sqlite_world import SQLiteWorld

Pair = tuple[int, int | None]
OLD: Pair = (-1, 7)
"""Row that is in the table before the job."""
OTHERS: Pair = (-2, 8)
"""Row that somebody else inserts."""


class Target(ABC):
    """A table with the columns id and v."""

    def __init__(self, case: TableCase) -> None:
        self.case = case

    @abstractmethod
    def sink(self) -> Sink:
        """Return the job's sink."""

    @abstractmethod
    def make(self) -> None:
        """Make the table with one old row and the case's trigger."""

    @abstractmethod
    def rows(self) -> list[Pair]:
        """Return ids and values; None where the column is gone or null."""

    @abstractmethod
    def change(self) -> list[Pair]:
        """Carry out the case's change. Return the rows that were there just before it."""

    @abstractmethod
    def drop_trigger(self) -> None:
        """Drop the trigger that stops the job, if there is one."""

    @abstractmethod
    def restore_column(self) -> None:
        """Undo a renamed or dropped column, if it was."""

    def audited(self) -> list[Pair]:
        """Return the rows that the audit trigger wrote."""
        return []

    @property
    def key(self) -> dict[str, Any]:
        """Return the sink's option of the key, if the mode has one."""
        return {"key": ["id"]} if self.case.mode == "upsert" else {}

    @property
    def victim(self) -> int:
        """The id of the row that somebody else deletes, if it is there. It occurs once in the input."""
        return self.case.rows(0)[-1][0][0] if self.case.mode == "upsert" else self.case.rows(0)[0][0][0]


class SqlTarget(Target):
    """A table of a database. ``quoted``: the table's name in statements."""

    quoted: str
    audit: str

    @abstractmethod
    def run(self, statement: str) -> list[Any]:
        """Run a statement in a transaction of its own."""

    @abstractmethod
    def at_once(self) -> Any:
        """Return a context with a function that runs statements in one transaction."""

    @abstractmethod
    def add_trigger(self) -> None:
        """Make the case's trigger."""

    def make(self) -> None:
        key = " PRIMARY KEY" if self.case.mode == "upsert" else ""
        self.run(f"CREATE TABLE {self.quoted} (id BIGINT NOT NULL{key}, v BIGINT)")
        self.run(f"CREATE TABLE {self.audit} (id BIGINT, v BIGINT)")
        self.run(f"INSERT INTO {self.quoted} VALUES {OLD}")
        self.add_trigger()

    def rows(self) -> list[Pair]:
        return [(row[0], row[1]) for row in self.run(f"SELECT id, v FROM {self.quoted}")]

    def audited(self) -> list[Pair]:
        return [(row[0], row[1]) for row in self.run(f"SELECT id, v FROM {self.audit}") if row[0] >= 0]

    def change(self) -> list[Pair]:
        with self.at_once() as run:
            rows = [(row[0], row[1]) for row in run(f"SELECT id, v FROM {self.quoted}")]
            match self.case.change:
                case "add column":
                    run(f"ALTER TABLE {self.quoted} ADD COLUMN extra BIGINT")
                case "rename column":
                    run(f"ALTER TABLE {self.quoted} RENAME COLUMN v TO w")
                case "drop column":
                    run(f"ALTER TABLE {self.quoted} DROP COLUMN v")
                case "insert row":
                    run(f"INSERT INTO {self.quoted} VALUES {OTHERS}")
                case "delete row":
                    run(f"DELETE FROM {self.quoted} WHERE id = {self.victim}")
        return rows

    def restore_column(self) -> None:
        if self.case.change == "rename column" and not self._has_v():
            self.run(f"ALTER TABLE {self.quoted} RENAME COLUMN w TO v")
        if self.case.change == "drop column" and not self._has_v():
            self.run(f"ALTER TABLE {self.quoted} ADD COLUMN v BIGINT")

    @abstractmethod
    def _has_v(self) -> bool:
        """Return whether the table has the column v."""


class SQLiteTarget(SqlTarget):
    quoted, audit = "orders", "audit"
    triggers: ClassVar[dict[Trigger, tuple[str, ...]]] = {
        "audits": (
            "CREATE TRIGGER a AFTER INSERT ON orders BEGIN INSERT INTO audit VALUES (NEW.id, NEW.v); END",
            "CREATE TRIGGER b AFTER UPDATE ON orders BEGIN INSERT INTO audit VALUES (NEW.id, NEW.v); END",
        ),
        "swallows": (
            "CREATE TRIGGER stops BEFORE INSERT ON orders WHEN NEW.id = {bad} BEGIN SELECT RAISE(IGNORE); END",
        ),
        "keeps": ("CREATE TRIGGER stops BEFORE DELETE ON orders BEGIN SELECT RAISE(IGNORE); END",),
    }

    def __init__(self, case: TableCase, base: Path) -> None:
        super().__init__(case)
        self._world = SQLiteWorld(base / "shop.db")

    def sink(self) -> Sink:
        return self._world.sink(mode=self.case.mode, **self.key)

    def run(self, statement: str) -> list[Any]:
        return self._world.run(statement)

    @contextmanager
    def at_once(self) -> Iterator[Callable[[str], list[Any]]]:
        connection = self._world.open()
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield lambda statement: connection.execute(statement).fetchall()
            connection.execute("COMMIT")
        finally:
            connection.close()

    def add_trigger(self) -> None:
        for statement in self.triggers.get(self.case.trigger, ()):
            self.run(statement.format(bad=self.case.bad))

    def drop_trigger(self) -> None:
        self.run("DROP TRIGGER IF EXISTS stops")

    def _has_v(self) -> bool:
        return any(row[1] == "v" for row in self.run("PRAGMA table_info(orders)"))


SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64())])


class IcebergTarget(Target):
    """A table of an Iceberg catalog in a SQLite file."""

    def __init__(self, case: TableCase, base: Path) -> None:
        super().__init__(case)
        self._properties = {
            "type": "sql",
            "uri": f"sqlite:///{base}/catalog.db",
            "warehouse": f"file://{base}/warehouse",
        }

    def sink(self) -> Sink:
        mode = "overwrite" if self.case.mode == "replace" else self.case.mode
        return IcebergSink("lake.orders", catalog=self._properties, mode=mode, **self.key)

    def make(self) -> None:
        catalog = self._catalog()
        catalog.create_namespace("lake")
        catalog.create_table("lake.orders", SCHEMA).append(self._rows_of(OLD))

    def rows(self) -> list[Pair]:
        return [(row["id"], row.get("v")) for row in self._table().scan().to_arrow().to_pylist()]

    def change(self) -> list[Pair]:
        for _ in range(100):
            table = self._table()
            try:
                self._change(table)
                break
            except CommitFailedException:
                continue  # the job has committed meanwhile
        if self.case.change in ("insert row", "delete row"):
            return [] if table.current_snapshot() is None else self._before(table)
        return self._at_snapshot(self._table())

    def _change(self, table: Table) -> None:
        match self.case.change:
            case "add column":
                with table.update_schema() as update:
                    update.add_column("extra", LongType())
            case "rename column":
                with table.update_schema() as update:
                    update.rename_column("v", "w")
            case "drop column":
                with table.update_schema() as update:
                    update.delete_column("v")
            case "insert row":
                table.append(self._rows_of(OTHERS))
            case "delete row":
                table.delete(f"id = {self.victim}")

    def _before(self, table: Table) -> list[Pair]:
        """Return the rows of the snapshot below the one that the change has made."""
        snapshot = table.current_snapshot()
        assert snapshot is not None
        parent = snapshot.parent_snapshot_id
        return [] if parent is None else self._pairs(table, parent)

    def _at_snapshot(self, table: Table) -> list[Pair]:
        """Return the rows of the newest snapshot, with the columns that it had when it was made."""
        snapshot = table.current_snapshot()
        return [] if snapshot is None else self._pairs(table, snapshot.snapshot_id)

    @staticmethod
    def _pairs(table: Table, snapshot: int) -> list[Pair]:
        rows = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
        return [(row["id"], row.get("v")) for row in rows]

    def drop_trigger(self) -> None:
        """Do nothing: a table of Iceberg has no triggers."""

    def restore_column(self) -> None:
        table = self._table()
        names = {field.name for field in table.schema().fields}
        if self.case.change == "rename column" and "v" not in names:
            with table.update_schema() as update:
                update.rename_column("w", "v")
        if self.case.change == "drop column" and "v" not in names:
            with table.update_schema() as update:
                update.add_column("v", LongType())

    def _catalog(self) -> Catalog:
        return load_catalog(None, **self._properties)

    def _table(self) -> Table:
        return self._catalog().load_table("lake.orders")

    @staticmethod
    def _rows_of(row: Pair) -> pa.Table:
        return pa.table({"id": [row[0]], "v": [row[1]]}, SCHEMA)
