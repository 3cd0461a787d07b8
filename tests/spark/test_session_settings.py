"""Settings for the start of one query, which other queries do not get."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from airflow_provider_ckpt.spark.app.session_settings import settings_at_start
from airflow_provider_ckpt.spark.task.streaming import running_query
from airflow_provider_ckpt.spark.task.streaming.running_query import RunningQuery
from tests.spark.harness import World
from tests.spark.jobs import depths

pytestmark = pytest.mark.slow

POLLING, SHUFFLE = "spark.sql.streaming.pollingDelay", "spark.sql.shuffle.partitions"


@pytest.fixture
def chosen(spark: SparkSession) -> Iterator[str]:
    before = str(spark.conf.get(POLLING))
    spark.conf.set(POLLING, "1s")
    yield "1s"
    spark.conf.set(POLLING, before)


def test_a_query_of_result_partitions_alone_polls_half_as_often(spark: SparkSession, chosen: str) -> None:
    with settings_at_start(spark, None, is_consumer=True):
        assert spark.conf.get(POLLING) == "2000ms"
    assert spark.conf.get(POLLING) == chosen
    with settings_at_start(spark, None):
        assert spark.conf.get(POLLING) == chosen


@pytest.mark.parametrize("folder", ["s3a://lake/in", "abfss://c@a.dfs.core.windows.net/in", "hdfs:///in"])
def test_folders_in_an_object_store_are_polled_each_second(spark: SparkSession, folder: str) -> None:
    with settings_at_start(spark, None, folders=["/data/in", folder]):
        assert spark.conf.get(POLLING) == "1000ms"
    with settings_at_start(spark, None, is_consumer=True, folders=[folder]):
        assert spark.conf.get(POLLING) == "2000ms"
    assert spark.conf.get(POLLING) == "90ms"


@pytest.mark.parametrize("folder", ["/data/in", "file:///data/in", "file:/data/in", "/data/a:b", "in/a:b"])
def test_a_local_folder_is_polled_at_the_usual_interval(spark: SparkSession, folder: str) -> None:
    with settings_at_start(spark, None, folders=[folder]):
        assert spark.conf.get(POLLING) == "90ms"


def test_the_conf_of_a_job_decides_for_all_folders(spark: SparkSession, chosen: str) -> None:
    with settings_at_start(spark, None, folders=["s3a://lake/in"]):
        assert spark.conf.get(POLLING) == chosen
    spark.conf.set(POLLING, "200ms")
    with settings_at_start(spark, None, folders=["s3a://lake/in"]):
        assert spark.conf.get(POLLING) == "200ms"


def test_a_query_is_started_with_the_folders_that_it_polls(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = world.put_ids("history", 2, 2) | world.put_ids("live", 1, 2, 1000)
    polled: list[list[str]] = []

    def remembering(*given: Any, folders: Iterable[str] = (), **more: Any) -> Any:
        polled.append([folder.partition("/vertices/")[2].partition("/")[0] or Path(folder).name for folder in folders])
        return settings_at_start(*given, folders=folders, **more)

    monkeypatch.setattr(running_query, "settings_at_start", remembering)
    run = world.run(depths(world), world.drain_at(len(rows), "out"))
    assert run.status == "FINISHED"
    assert all(folders in polled for folders in (["history"], ["cleaned"], ["live", "merged"]))


def test_a_failed_start_leaves_the_session_unchanged(spark: SparkSession, chosen: str) -> None:
    before = spark.conf.get(SHUFFLE)
    with pytest.raises(ValueError, match="did not start"), settings_at_start(spark, 17, is_consumer=True):
        assert spark.conf.get(SHUFFLE) == "17"
        raise ValueError("did not start")
    assert (spark.conf.get(POLLING), spark.conf.get(SHUFFLE)) == (chosen, before)


def test_queries_that_start_together_do_not_share_settings(spark: SparkSession, chosen: str) -> None:
    seen: list[str | None] = []

    def start_beside() -> None:
        with settings_at_start(spark, None, is_consumer=True):
            seen.append(spark.conf.get(POLLING))

    other = threading.Thread(target=start_beside)
    with settings_at_start(spark, None, is_consumer=True):
        other.start()
        other.join(0.2)
    other.join()
    assert (seen, spark.conf.get(POLLING)) == (["2000ms"], chosen)


def test_only_queries_of_result_partitions_alone_poll_half_as_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = world.put_ids("history", 2, 2) | world.put_ids("live", 1, 2, 1000)
    waits: dict[str, int] = {}
    launch = RunningQuery._launch

    def launched(self: RunningQuery, built: Any, trigger: Any) -> StreamingQuery:
        query: Any = launch(self, built, trigger)
        waits[self._batches.vertex.uid] = query._jsq.streamingQuery().pollingDelayMs()
        return query  # type: ignore[no-any-return]

    monkeypatch.setattr(RunningQuery, "_launch", launched)
    run = world.run(depths(world), world.drain_at(len(rows), "out"))
    assert run.status == "FINISHED"
    usual = waits["history"]
    assert waits == {"history": usual, "cleaned": 2 * usual, "merged": usual}
