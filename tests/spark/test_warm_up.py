"""What a worker that stands by runs once, so that its first batch is not Spark's first one."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.spark import warm_up as module
from airflow_provider_ckpt.spark.warm_up import begin_warm_up, warm_up

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("stateful", [False, True])
def test_a_warm_up_runs_batches_and_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stateful: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    batches: list[int] = []
    write = module._write

    def noting(path: str | None) -> Callable[[DataFrame, int], None]:
        def one(frame: DataFrame, batch: int) -> None:
            write(path)(frame, batch)
            batches.append(batch)

        return one

    monkeypatch.setattr(module, "_write", noting)
    warm_up(spark, stateful=stateful)
    assert batches == [0, 1]
    assert list(tmp_path.iterdir()) == []
    assert spark.streams.active == []


def test_a_warm_up_that_fails_is_no_matter(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(tempfile, "tempdir", "/proc/no/such/folder")
    begin_warm_up(spark, stateful=False).join()
    assert "the warm-up of Spark did not work" in caplog.text
