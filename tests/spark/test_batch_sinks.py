"""BATCH mode: each sink, at any depth of the graph, gets one checkpoint. No gates pass a barrier on."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.job.operators import Operator
from tests.spark.harness import World
from tests.spark.jobs import IDS

pytestmark = pytest.mark.slow


def _history(world: World, job: Job) -> Operator:
    @job.source(bounded=True, chain=False)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    return history


def line(world: World) -> Job:
    """Return the job source -> sink "raw" and transform -> sink "out", with the source in its own query."""
    job = Job("line")
    history = _history(world, job)

    @job.transform(inputs=[history], chain=False)
    def doubled(rows: DataFrame) -> DataFrame:
        return rows.withColumn("twice", F.col("id") * 2)

    job.sink("raw", history, FileSink(world.path("raw")))
    job.sink("out", doubled, FileSink(world.path("out")))
    return job


def diamond(world: World) -> Job:
    """Return a job with a sink at each of three depths: a source, two parallel transforms, and their union."""
    job = Job("diamond")
    history = _history(world, job)

    @job.transform(inputs=[history], chain=False)
    def left(rows: DataFrame) -> DataFrame:
        return rows.where("id % 2 = 0")

    @job.transform(inputs=[history], chain=False)
    def right(rows: DataFrame) -> DataFrame:
        return rows.where("id % 2 = 1")

    @job.transform(inputs=[left, right], chain=False)
    def both(rows: DataFrame) -> DataFrame:
        return rows

    job.sink("raw", history, FileSink(world.path("raw")))
    job.sink("even", left, FileSink(world.path("even")))
    job.sink("out", both, FileSink(world.path("out")))
    return job


def test_a_vertex_with_a_sink_and_a_consumer_finishes_in_batch_mode(world: World) -> None:
    expected = world.put_ids("history", 3, 4)
    run = world.run(line(world), mode="batch", checkpoint_timeout=20)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids("raw") == world.released_ids("out") == sorted(expected)
    assert world.state().completed_count == 1


def test_sinks_at_every_depth_of_a_diamond_finish_in_batch_mode(world: World) -> None:
    expected = world.put_ids("history", 3, 4)
    run = world.run(diamond(world), mode="batch", checkpoint_timeout=20)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids("raw") == world.released_ids("out") == sorted(expected)
    assert world.released_ids("even") == [number for number in sorted(expected) if number % 2 == 0]
    assert world.state().completed_count == 1
