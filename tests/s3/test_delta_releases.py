"""Concurrent releases to a Delta table on S3, next to a foreign writer. Without Spark."""

from __future__ import annotations

import io
import threading
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet

from airflow_provider_ckpt.sinks.delta.delta_sink import DeltaSink, delta_options
from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext, StageRequest
from airflow_provider_ckpt.spark.task.outputs import counted
from tests.lakes.tables import ARROW, Frame
from tests.s3.store import SECRET, Bucket

pytestmark = pytest.mark.s3


class Uploaded(Frame):
    """Frame whose writer puts the file into a bucket."""

    bucket: Bucket

    def save(self, uri: str) -> None:
        body = io.BytesIO()
        parquet.write_table(self.rows, body)
        place = uri.split(f"//{self.bucket.name}/", 1)[1]
        self.bucket.storage.create(f"{place}/part-00000-0.c000.snappy.parquet", body.getvalue())


def stage(bucket: Bucket, sink: BoundLakeSink, number: int) -> Handle:
    frame: Any = Uploaded([(number, "a")])
    frame.bucket = bucket
    return sink.stage(frame, StageRequest("a1", number, "n", counted))


def test_r9_concurrent_releasers_on_s3_release_each_batch_once(bucket: Bucket) -> None:
    uri = f"s3://{bucket.name}/table"
    sink = DeltaSink(uri, storage_options=bucket.options)
    options = delta_options(uri, bucket.options, None)

    def bound() -> BoundLakeSink:
        return sink.bind(SinkContext("orders", "lake"))

    handles = [stage(bucket, bound(), number) for number in range(1, 6)]
    failed: list[Exception] = []

    def release() -> None:
        mine = bound()
        for number, handle in enumerate(handles, start=1):
            try:
                mine.release([handle], number)
            except Exception as error:
                failed.append(error)

    def write() -> None:
        for _ in range(5):
            rows = pa.table([pa.array([0], pa.int32()), pa.array(["f"])], ARROW)
            write_deltalake(uri, rows, mode="append", storage_options=options)

    threads = [threading.Thread(target=act) for act in (release, release, release, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    rows = DeltaTable(uri, storage_options=options).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows) == [0] * 5 + [1, 2, 3, 4, 5]
    assert bound().last_released() == 5
    assert SECRET not in repr(sink)
