"""A batch's files in its partition: they are on disk before a record names them (R17). No Spark runs here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sinks.write_settings import LOSSLESS
from airflow_provider_ckpt.spark.task import outputs
from airflow_provider_ckpt.spark.task.outputs import Outputs, PartitionTarget
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.harness import write_rows


class Frame:
    """A frame of one row with the methods that its writer calls."""

    schema: Any = None
    sparkSession = SimpleNamespace(
        conf=SimpleNamespace(get=lambda key: LOSSLESS[key][0]),
        _jsparkSession=SimpleNamespace(sessionUUID=lambda: "of no session"),
    )

    @property
    def write(self) -> Frame:
        return self

    def options(self, **options: str) -> Frame:
        return self

    def parquet(self, uri: str) -> None:
        write_rows(Path(uri.removeprefix("file://")) / "part-0.parquet", [{"id": 1}])


def test_r17_partition_data_is_synced_before_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "counted", lambda frame: (frame, lambda: 1))  # Spark counts
    storage = WrappedStorage(open_storage(tmp_path))
    reader = SimpleNamespace(schema=lambda schema: SimpleNamespace(parquet=lambda uri: None))
    spark: Any = SimpleNamespace(read=SimpleNamespace(options=lambda **options: reader))
    frame: Any = Frame()
    target = PartitionTarget("p", "p/a__v/data")
    prepared = Outputs(spark, storage, AttemptId(1, 0, "x"), {}, target, "scratch").stage(frame, 7)
    [file] = prepared.files
    assert prepared.rows == 1
    assert storage.verbs.log == [f"sync p/{file.path.rpartition('/')[0]}"]
