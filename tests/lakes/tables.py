"""Tables that jobs release to, without Spark.

A batch is written as Spark writes it and staged as the sink stages it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import parquet

from airflow_provider_ckpt.sinks.delta.delta_sink import DeltaSink
from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext, StageRequest
from airflow_provider_ckpt.sinks.write_settings import LOSSLESS
from airflow_provider_ckpt.spark.task.outputs import counted

Row = tuple[int, str | None]


def schema_of(**types: str) -> str:
    """Return Spark's JSON for nullable columns."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


COLUMNS = schema_of(id="integer", city="string")
ARROW = pa.schema([("id", pa.int32()), ("city", pa.string())])


class FrameColumn:
    name: str = ""
    metadata: Mapping[str, Any] = MappingProxyType({})

    def cast(self, kind: Any) -> FrameColumn:
        return self

    def alias(self, name: str, metadata: Mapping[str, Any]) -> FrameColumn:
        self.name, self.metadata = name, metadata
        return self


def fields_of(schema: Mapping[str, Any]) -> SimpleNamespace:
    """Return a schema of Spark with only the parts that staging uses."""
    fields = [
        SimpleNamespace(name=field["name"], dataType=field["type"], metadata=field["metadata"])
        for field in schema["fields"]
    ]
    return SimpleNamespace(fields=fields)


class Frame:
    """Frame with only the parts that staging uses: its schema, and a writer of one Parquet file."""

    def __init__(self, rows: Sequence[Row], schema: str = COLUMNS) -> None:
        self.schema = SimpleNamespace(json=lambda: schema, fromJson=fields_of)
        self.rows = pa.table(
            {
                "id": pa.array([row[0] for row in rows], pa.int32()),
                "city": pa.array([row[1] for row in rows], pa.string()),
            }
        )
        settings = dict.fromkeys(LOSSLESS, "")
        self.sparkSession = SimpleNamespace(
            conf=SimpleNamespace(get=settings.__getitem__, set=settings.__setitem__),
            _jsparkSession=SimpleNamespace(sessionUUID=lambda: str(id(self))),
        )

    def __getitem__(self, name: str) -> FrameColumn:
        return FrameColumn()

    def select(self, *columns: FrameColumn) -> Frame:
        """Take the ids of the columns, which Spark writes to the file."""
        ids = {column.name: str(column.metadata["parquet.field.id"]) for column in columns}
        fields = [
            field.with_metadata({"PARQUET:field_id": ids[field.name]})
            for field in self.rows.schema
            if field.name in ids
        ]
        self.rows = self.rows.select([field.name for field in fields]).cast(pa.schema(fields))
        return self

    @property
    def write(self) -> Frame:
        return self

    def format(self, name: str) -> Frame:
        return self

    def mode(self, name: str) -> Frame:
        return self

    def options(self, **given: Any) -> Frame:
        return self

    def save(self, uri: str) -> None:
        folder = Path(uri.removeprefix("file://"))
        folder.mkdir(parents=True)
        parquet.write_table(self.rows, folder / "part-00000-0.c000.snappy.parquet")


def stage(sink: BoundLakeSink, rows: Sequence[Row], batch: int, nonce: str = "n", schema: str = COLUMNS) -> Handle:
    handle = sink.stage(Frame(rows, schema), StageRequest("a1", batch, nonce, counted))  # type: ignore[arg-type]
    read: Handle = json.loads(json.dumps(handle))
    return read


def delta(path: Path, job: str = "orders", uid: str = "lake", **settings: Any) -> BoundLakeSink:
    """Bind the sink again, as another process of the job would."""
    return DeltaSink(str(path), **settings).bind(SinkContext(job, uid))


def table_rows(path: Path) -> list[Row]:
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted((row["id"], row["city"]) for row in rows)
