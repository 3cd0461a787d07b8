"""Jobs that read Kafka."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from tests.kafka.topics import Topics
from tests.spark.harness import World

ROW = "id LONG, k LONG"


def read_topic(read: Any, servers: str, topic: str, **options: str) -> DataFrame:
    chosen = {} if {"subscribePattern", "assign"} & options.keys() else {"subscribe": topic}
    given = {"kafka.bootstrap.servers": servers, **chosen, **options}
    frame = read.format("kafka").options(**given).load()
    row = F.from_json(F.col("value").cast("string"), ROW)
    return frame.select(row["id"].alias("id"), row["k"].alias("k"))  # type: ignore[no-any-return]


def history_job(world: World, topics: Topics, topic: str, **options: str) -> Job:
    """Return a job with only a bounded topic."""
    job = Job("kafka")

    @job.source(bounded=True)
    def history(read: Any) -> DataFrame:
        return read_topic(read, topics.servers, topic, **options)

    job.sink("out", history, FileSink(world.path("out")))
    return job


def live_job(world: World, topics: Topics, topic: str, **options: str) -> Job:
    """Return a job with only a live source. ``topic``: one or several topics, separated by commas."""
    job = Job("kafka")

    @job.source
    def live(read: Any) -> DataFrame:
        return read_topic(read, topics.servers, topic, **options)

    job.sink("out", live, FileSink(world.path("out")))
    return job


def combined_job(
    world: World,
    topics: Topics,
    history_topic: str,
    live_topic: str,
    chain: bool = True,
    allow_empty: bool = False,
    **options: str,
) -> Job:
    """Return a job with a bounded and a live topic, in one query unless ``chain=False``.

    ``options``: options of the bounded topic.
    """
    job = Job("kafka")

    @job.source(bounded=True, chain=chain, allow_empty=allow_empty)
    def history(read: Any) -> DataFrame:
        return read_topic(read, topics.servers, history_topic, **{"maxOffsetsPerTrigger": "20", **options})

    @job.source
    def live(read: Any) -> DataFrame:
        return read_topic(read, topics.servers, live_topic, startingOffsets="earliest", maxOffsetsPerTrigger="10")

    @job.transform(inputs=[history, live])
    def rows(both: DataFrame) -> DataFrame:
        return both

    job.sink("out", rows, FileSink(world.path("out")))
    return job
