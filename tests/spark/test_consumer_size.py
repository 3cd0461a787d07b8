"""BATCH mode: the bytes of a consumer's input set the initial number of its shuffle partitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from airflow_provider_ckpt import FileSink, Job, JobClient
from airflow_provider_ckpt.spark.task.bounded.consumer_size import MOST, initial_partitions, sized_for
from tests.spark.faults import BATCH, RefusedEntries
from tests.spark.harness import World
from tests.spark.jobs import IDS

INITIAL = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
ADVISORY = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
MIB = 1 << 20


@pytest.mark.parametrize(
    ("read", "expected"),
    [(0, 200), (6 << 30, 200), ((6400 << 20), 200), ((6400 << 20) + 1, 201), (1 << 40, MOST), (1 << 50, MOST)],
)
def test_input_bytes_raise_and_never_lower_the_initial_partitions(read: int, expected: int) -> None:
    assert initial_partitions(read, 64 * MIB, 200) == expected


def test_a_configured_number_above_the_maximum_stays() -> None:
    assert initial_partitions(1 << 50, 64 * MIB, 20_000) == 20_000


@pytest.fixture
def small(spark: SparkSession) -> Iterator[SparkSession]:
    """Set Spark's advisory partition size to one byte."""
    before = {key: spark.conf.get(key, None) for key in (INITIAL, ADVISORY, "spark.sql.adaptive.enabled")}
    spark.conf.set(ADVISORY, "1b")
    yield spark
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def partitions_during(spark: SparkSession, read: int) -> str | None:
    with sized_for(spark, read):
        return spark.conf.get(INITIAL, None)


def test_a_small_result_does_not_change_the_initial_partitions(spark: SparkSession) -> None:
    assert partitions_during(spark, 1000) is None


def test_the_setting_ends_with_the_query_even_after_a_failure(small: SparkSession) -> None:
    assert partitions_during(small, 1000) == "2000"
    assert small.conf.get(INITIAL, None) is None
    with pytest.raises(KeyError), sized_for(small, 1000):
        raise KeyError
    assert small.conf.get(INITIAL, None) is None


def test_a_setting_of_the_user_is_kept(small: SparkSession) -> None:
    small.conf.set(INITIAL, "7")
    assert partitions_during(small, 1000) == "7" == small.conf.get(INITIAL)
    small.conf.unset(INITIAL)
    small.conf.set("spark.sql.adaptive.enabled", "false")
    assert partitions_during(small, 1000) is None


def test_a_consumer_gets_the_setting_and_a_source_does_not(world: World, small: SparkSession) -> None:
    """The input is small, so Spark coalesces the partitions again."""
    world.put_ids("history", 3, 40)
    seen: dict[str, str | None] = {}
    job = Job("sized")

    def remember(uid: str) -> None:
        session = SparkSession.getActiveSession()
        assert session is not None
        seen[uid] = session.conf.get(INITIAL, None)

    @job.source(bounded=True)
    def history(read: DataFrameReader) -> DataFrame:
        remember("history")
        return read.schema(IDS).parquet(world.path("history"))

    @job.transform(inputs=[history], chain=False)
    def counts(rows: DataFrame) -> DataFrame:
        remember("counts")
        return rows.groupBy("k").count()

    job.sink("out", counts, FileSink(world.path("out")))
    assert world.run(job, storage=RefusedEntries(world.storage, "counts", BATCH), mode="batch").status == "RESTARTING"
    (result,) = JobClient(world.storage, world.job_id).get_partition_with_metrics(["history"])
    seen.clear()
    run = world.run(job, mode="batch")
    assert (run.status, run.cause) == ("FINISHED", None)
    assert seen["counts"] == str(initial_partitions(result.bytes, 1, 200)) != "200"
    assert seen.get("history") is None
    assert sorted((row["k"], row["count"]) for row in world.released()) == [(0, 40), (1, 40), (2, 40)]
