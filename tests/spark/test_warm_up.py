"""The warm-up of a standby worker, so that its first batch is not Spark's first batch."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.spark.app import warm_up as module
from airflow_provider_ckpt.spark.app.warm_up import begin_warm_up

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("master", ["local[2]", "spark://somewhere:7077"])
def test_a_warm_up_runs_batches_and_leaves_no_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, *, stateful: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spark.sparkContext, "master", master)
    batches: list[tuple[int, int]] = []
    one_batch = module._batch

    def noting(rows: DataFrame, checkpoint: str, write: Callable[[DataFrame, int], None]) -> None:
        def noted(frame: DataFrame, batch: int) -> None:
            write(frame, batch)
            batches.append((batch, frame.count()))

        one_batch(rows, checkpoint, noted)

    monkeypatch.setattr(module, "_batch", noting)
    warmed: list[float] = []
    begin_warm_up(spark, warmed.append, stateful=stateful).join()
    assert [batch for batch, _ in batches] == list(range(module.BATCHES)), "each batch continues after the previous one"
    assert all(rows for _, rows in batches), "each batch has rows"
    assert len(warmed) == 1
    assert list(tmp_path.iterdir()) == []
    assert spark.streams.active == []


def test_a_failed_warm_up_is_only_logged(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(tempfile, "tempdir", "/proc/no/such/folder")
    warmed: list[float] = []
    begin_warm_up(spark, warmed.append, stateful=False).join()
    assert "the warm-up of Spark did not work" in caplog.text
    assert warmed == []
