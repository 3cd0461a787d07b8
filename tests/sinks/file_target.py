"""Folder of a FileSink as a target of the conformance suite."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.sinks.file.bound_file_sink import BoundFileSink
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file.manifests import released_files
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.testing.crash import CrashingStorage, When, WrappedStorage
from airflow_provider_ckpt.testing.released_rows import SCHEMA, Damage, Row
from airflow_provider_ckpt.testing.sink_target import SinkTarget
from airflow_provider_ckpt.testing.staging import stage
from tests.support.books import books, table_of
from tests.support.refusing_storage import RefusingStorage


class FileTarget(SinkTarget):
    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        self.settings = settings
        self.sink = FileSink(str(path), **settings)

    @property
    def parent(self) -> Path:
        """The folder of the table and of the folder next to it."""
        return table_of(self.path).parent

    def bind(self, job_id: str = "orders", uid: str = "lake") -> BoundFileSink:
        return self.sink.bind(SinkContext(job_id, uid))

    def dying(self, at: int, when: When) -> BoundFileSink:
        storage = CrashingStorage(open_storage(self.parent), at=at, when=when)
        return self.sink.bind_to(storage, SinkContext("orders", "lake"))

    def refusing(self, handle: Handle) -> BoundFileSink:
        storage = RefusingStorage(open_storage(self.parent), lambda path: path.endswith(handle["id"]))
        return self.sink.bind_to(storage, SinkContext("orders", "lake"))

    def shared(self) -> FileTarget:
        return FileTarget(self.path, **{**self.settings, "mode": "append"})

    def damage(self, handle: Handle, how: Damage) -> None:
        place = books(self.path) / "orders/lake/staging" / handle["id"]
        file = place / handle["files"][-1]["path"]
        if how == "deleted":
            file.unlink()
        else:
            file.write_bytes(b"")

    def synced(self, spark: SparkSession, frame: DataFrame) -> bool:
        storage = WrappedStorage(open_storage(self.parent))
        handle = stage(self.sink.bind_to(storage, SinkContext("orders", "lake")), frame, 1)
        return storage.verbs.log[-1:] == [f"sync orders/lake/staging/{handle['id']}"]

    def definition(self) -> Mapping[str, Any]:
        return FileSink(str(self.path), **self.settings).definition()

    def rows(self, spark: SparkSession) -> list[Row]:
        """Return the folder's rows. Check that readers of the folder and of the manifests see the same rows."""
        files = released_files(str(self.path))
        assert len(set(files)) == len(files)
        listed = self._read(spark, files) if files else []
        rows = self._read(spark, [str(self.path)]) if self.path.exists() else []
        assert listed == rows
        return rows

    def _read(self, spark: SparkSession, paths: list[str]) -> list[Row]:
        reader = spark.read.schema(SCHEMA).options(**self.sink.options).option("basePath", str(self.path))
        frame = reader.format(self.sink.format).load(paths).select("id", "city")
        return sorted((row.id, row.city) for row in frame.collect())

    def staged(self) -> list[str]:
        # The emptied folder of a batch remains, so only folders with files count.
        places = books(self.path).glob("*/*/staging/*")
        return sorted(place.name for place in places if any(file.is_file() for file in place.rglob("*")))
