"""An Iceberg catalog in a SQLite file, and a warehouse in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from airflow_provider_ckpt.sinks.iceberg.iceberg_sink import IcebergSink
from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
from airflow_provider_ckpt.sinks.sink import SinkContext
from tests.lakes.tables import ARROW, Row

NAME = "lake.orders"


class Warehouse:
    """A catalog and a warehouse below one folder. ``made``: the table exists already."""

    def __init__(self, path: Path, *, made: bool = False) -> None:
        self.path = path
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{path}/catalog.db",
            "warehouse": f"file://{path}/warehouse",
        }
        self.folder = path / "warehouse/lake/orders"
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists("lake")
        if made:
            catalog.create_table(NAME, ARROW)

    def catalog(self) -> Catalog:
        return load_catalog(None, **self.properties)

    def table(self) -> Table:
        return self.catalog().load_table(NAME)

    def partition_by(self, *columns: str, transform: str = "identity") -> None:
        with self.table().update_spec() as update:
            for column in columns:
                update.add_field(column, transform, f"{column}_part")

    def sink(self, **settings: Any) -> IcebergSink:
        return IcebergSink(NAME, catalog=self.properties, **settings)

    def bind(self, job: str = "orders", uid: str = "lake", **settings: Any) -> BoundLakeSink:
        """Bind the sink again, as another process of the job would."""
        return self.sink(**settings).bind(SinkContext(job, uid))

    def rows(self) -> list[Row]:
        if not self.catalog().table_exists(NAME):
            return []
        rows = self.table().scan().to_arrow().to_pylist()
        return sorted((row["id"], row["city"]) for row in rows)

    def files(self) -> list[str]:
        if not self.catalog().table_exists(NAME):
            return []
        return [task.file.file_path for task in self.table().scan().plan_files()]

    def append(self, *rows: Row) -> None:
        """Append rows as a writer that knows of no job."""
        ids, cities = [row[0] for row in rows], [row[1] for row in rows]
        self.table().append(pa.table([pa.array(ids, pa.int32()), pa.array(cities, pa.string())], ARROW))
