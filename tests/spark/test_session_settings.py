"""What one query is started with, and the others are not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from airflow_provider_ckpt.spark.task.running_query import RunningQuery
from airflow_provider_ckpt.spark.task.session_settings import starting
from tests.spark.harness import World
from tests.spark.jobs import depths

POLLING, SHUFFLE = "spark.sql.streaming.pollingDelay", "spark.sql.shuffle.partitions"


@pytest.fixture
def chosen(spark: SparkSession) -> Iterator[str]:
    before = str(spark.conf.get(POLLING))
    spark.conf.set(POLLING, "1s")
    yield "1s"
    spark.conf.set(POLLING, before)


def test_a_query_of_result_partitions_alone_looks_half_as_often(spark: SparkSession, chosen: str) -> None:
    with starting(spark, None, is_consumer=True):
        assert spark.conf.get(POLLING) == "2000ms"
    assert spark.conf.get(POLLING) == chosen
    with starting(spark, None):
        assert spark.conf.get(POLLING) == chosen


def test_a_start_that_fails_leaves_the_session_as_it_was(spark: SparkSession, chosen: str) -> None:
    before = spark.conf.get(SHUFFLE)
    with pytest.raises(ValueError, match="did not start"), starting(spark, 17, is_consumer=True):
        assert spark.conf.get(SHUFFLE) == "17"
        raise ValueError("did not start")
    assert (spark.conf.get(POLLING), spark.conf.get(SHUFFLE)) == (chosen, before)


def test_two_that_start_at_once_do_not_see_each_others_settings(spark: SparkSession, chosen: str) -> None:
    seen: list[str | None] = []

    def start_beside() -> None:
        with starting(spark, None, is_consumer=True):
            seen.append(spark.conf.get(POLLING))

    other = threading.Thread(target=start_beside)
    with starting(spark, None, is_consumer=True):
        other.start()
        other.join(0.2)
    other.join()
    assert (seen, spark.conf.get(POLLING)) == (["2000ms"], chosen)


def test_of_a_jobs_queries_those_that_read_result_partitions_alone_look_half_as_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = world.put_ids("history", 2, 2) | world.put_ids("live", 1, 2, 1000)
    waits: dict[str, int] = {}
    launch = RunningQuery._launch

    def launched(self: RunningQuery, built: Any, trigger: Any) -> StreamingQuery:
        query: Any = launch(self, built, trigger)
        waits[self._publisher.vertex.uid] = query._jsq.streamingQuery().pollingDelayMs()
        return query  # type: ignore[no-any-return]

    monkeypatch.setattr(RunningQuery, "_launch", launched)
    run = world.run(depths(world), world.drain_at(len(rows), "out"))
    assert run.status == "FINISHED"
    usual = waits["history"]
    assert waits == {"history": usual, "cleaned": 2 * usual, "merged": usual}
