"""Jobs that count rows in windows of event time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from tests.spark.harness import World

WATERMARK = ("ts", "1 second")


def count_windows(job: Job, world: World, sources: Sequence[Any], *, declared: bool) -> Job:
    """Add a transform ``counts`` with the sink ``out``, which counts rows of sources in windows of ten seconds.

    ``declared``: the sources have a watermark. Otherwise the transform sets it.
    """

    @job.transform(inputs=[*sources])
    def counts(rows: DataFrame) -> DataFrame:
        rows = rows if declared else rows.withWatermark(*WATERMARK)
        grouped = rows.groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n"))
        return grouped.select(F.unix_seconds("window.start").alias("id"), "n")

    job.sink("out", counts, FileSink(world.path("out")))
    return job


def counted(world: World) -> dict[int, int]:
    """Return the rows of each window that was released, by its start in seconds."""
    windows: Counter[int] = Counter()
    for row in world.released():
        windows[row["id"]] += row["n"]
    return dict(windows)
