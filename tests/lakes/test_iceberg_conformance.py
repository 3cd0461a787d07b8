from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, SinkContext
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.testing.crash import CrashingStorage, When, WrappedStorage
from airflow_provider_ckpt.testing.released_rows import Damage, Row
from airflow_provider_ckpt.testing.sink_conformance import SinkConformance
from airflow_provider_ckpt.testing.sink_target import SinkTarget
from airflow_provider_ckpt.testing.staging import stage
from tests.lakes.crashing_table import WrappedTable
from tests.lakes.warehouse import Warehouse
from tests.support.refusing_storage import RefusingStorage

pytestmark = pytest.mark.spark
CONTEXT = SinkContext("orders", "lake")


class Iceberg(SinkTarget):
    def __init__(self, warehouse: Warehouse, **settings: Any) -> None:
        self.warehouse, self.settings = warehouse, settings
        self.sink = warehouse.sink(**settings)
        self.path = warehouse.folder

    def bind(self, job_id: str = "orders", uid: str = "lake") -> BoundSink:
        return self.sink.bind(SinkContext(job_id, uid))

    def bound(self, storage: WrappedStorage) -> BoundSink:
        return BoundLakeSink(WrappedTable(self.sink.bound_table(CONTEXT), storage), self.sink.settings, CONTEXT)

    def dying(self, at: int, when: When) -> BoundSink:
        return self.bound(CrashingStorage(open_storage(self.path), at=at, when=when))

    def refusing(self, handle: Handle) -> BoundSink:
        return self.bound(RefusingStorage(open_storage(self.path), lambda path: path.endswith(handle["id"])))

    def shared(self) -> Iceberg:
        mode = "append" if self.settings.get("mode") == "overwrite" else self.sink.mode
        return Iceberg(self.warehouse, **{**self.settings, "mode": mode})

    def damage(self, handle: Handle, how: Damage) -> None:
        file = self.path / handle["files"][-1]["path"]
        if how == "deleted":
            file.unlink()
        else:
            file.write_bytes(b"")

    def synced(self, spark: SparkSession, frame: DataFrame) -> bool:
        storage = WrappedStorage(open_storage(self.path))
        handle = stage(self.bound(storage), frame, 1)
        return storage.verbs.log[-1:] == [f"sync _ckpt/orders/lake/staging/{handle['id']}"]

    def definition(self) -> Mapping[str, Any]:
        return self.warehouse.sink(**self.settings).definition()

    def rows(self, spark: SparkSession) -> list[Row]:
        return [(number, city or "") for number, city in self.warehouse.rows()]

    def staged(self) -> list[str]:
        places = self.path.glob("_ckpt/*/*/staging/*")
        return sorted(place.name for place in places if any(file.is_file() for file in place.rglob("*")))


class TestIceberg(SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        return Iceberg(Warehouse(tmp_path, made=True))


@pytest.mark.slow
class TestOverwritingIceberg(SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        return Iceberg(Warehouse(tmp_path, made=True), mode="overwrite")


@pytest.mark.slow
class TestUpsertingIceberg(SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        return Iceberg(Warehouse(tmp_path, made=True), mode="upsert", key=["id"])


@pytest.mark.slow
class TestPartitionedIceberg(SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        warehouse = Warehouse(tmp_path, made=True)
        warehouse.partition_by("city", "id")
        return Iceberg(warehouse)
