from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.sinks.delta.delta_sink import DeltaSink
from airflow_provider_ckpt.sinks.errors import RowsRefusedError
from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, SinkContext
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.testing.crash import CrashingStorage, When, WrappedStorage
from airflow_provider_ckpt.testing.released_rows import Damage, Row
from airflow_provider_ckpt.testing.sink_conformance import SinkConformance
from airflow_provider_ckpt.testing.sink_target import SinkTarget
from airflow_provider_ckpt.testing.staging import stage
from tests.lakes.crashing_table import WrappedTable
from tests.support.refusing_storage import RefusingStorage

pytestmark = pytest.mark.spark
CONTEXT = SinkContext("orders", "lake")


class Delta(SinkTarget):
    def __init__(self, path: Path, **settings: Any) -> None:
        self.path, self.settings = path, settings
        self.sink = DeltaSink(str(path), **settings)

    def bind(self, job_id: str = "orders", uid: str = "lake") -> BoundSink:
        return self.sink.bind(SinkContext(job_id, uid))

    def bound(self, storage: WrappedStorage) -> BoundSink:
        table = WrappedTable(self.sink.table(storage, CONTEXT), storage)
        return BoundLakeSink(table, self.sink.settings, CONTEXT)

    def dying(self, at: int, when: When) -> BoundSink:
        return self.bound(CrashingStorage(open_storage(self.path), at=at, when=when))

    def refusing(self, handle: Handle) -> BoundSink:
        return self.bound(RefusingStorage(open_storage(self.path), lambda path: path.endswith(handle["id"])))

    def shared(self) -> Delta:
        mode = "append" if self.settings.get("mode") == "overwrite" else self.sink.mode
        return Delta(self.path, **{**self.settings, "mode": mode})

    def damage(self, handle: Handle, how: Damage) -> None:
        file = self.path / handle["files"][-1]["path"]
        if how == "deleted":
            file.unlink()
        else:
            file.write_bytes(b"")

    def synced(self, spark: SparkSession, frame: DataFrame) -> bool:
        storage = WrappedStorage(open_storage(self.path))
        sink = self.bound(storage)
        handle = stage(sink, frame, 1)
        return storage.verbs.log[-1:] == [f"sync _ckpt/orders/lake/staging/{handle['id']}"]

    def definition(self) -> Mapping[str, Any]:
        return DeltaSink(str(self.path), **self.settings).definition()

    def rows(self, spark: SparkSession) -> list[Row]:
        if not DeltaTable.is_deltatable(str(self.path)):
            return []
        rows = DeltaTable(str(self.path)).to_pyarrow_table().to_pylist()
        return sorted((row["id"], row["city"]) for row in rows)

    def staged(self) -> list[str]:
        places = self.path.glob("_ckpt/*/*/staging/*")
        return sorted(place.name for place in places if any(file.is_file() for file in place.rglob("*")))


class TestDelta(SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        return Delta(tmp_path / "table")


@pytest.mark.slow
class TestOverwritingDelta(SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        return Delta(tmp_path / "table", mode="overwrite")


@pytest.mark.slow
class TestUpsertingDelta(SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        return Delta(tmp_path / "table", mode="upsert", key=["id"])


@pytest.mark.slow
class TestPartitionedDelta(SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        return Delta(tmp_path / "a table 100% ä=ö #1", partition_by=["city"])


def test_the_error_for_a_too_long_partition_value_names_the_column(spark: SparkSession, tmp_path: Path) -> None:
    sink = DeltaSink(str(tmp_path / "table"), partition_by=["city"]).bind(SinkContext("orders", "lake"))
    sink.prepare()
    rows = spark.createDataFrame([(1, "ok"), (2, "x" * 300)], "id int, city string")
    with pytest.raises(RowsRefusedError, match=r"sink 'lake' of job 'orders'.*in 'city'.*has 305 bytes"):
        stage(sink, rows, 1)
