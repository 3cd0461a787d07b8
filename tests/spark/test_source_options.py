"""Reader options and Spark settings that would silently lose rows: they are refused by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.app import session
from airflow_provider_ckpt.spark.app.session import NEEDED, STATE_STORE, session_conf
from airflow_provider_ckpt.spark.errors import UnfitSettingError
from airflow_provider_ckpt.spark.plan.job_plan import plan_job
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from tests.spark.harness import World
from tests.spark.jobs import IDS

Read = Callable[[Any], DataFrame]


def job(world: World, *, bounded: bool, watermark: tuple[str, str] | None = None, **options: Any) -> Job:
    job = Job("one")

    @job.source(bounded=bounded, watermark=watermark)
    def rows(read: Any) -> DataFrame:
        given = read.schema(IDS).options(**options).parquet(world.path("in"))
        return given.withColumn("ts", F.timestamp_seconds("id"))  # type: ignore[no-any-return]

    job.sink("out", rows, FileSink(world.path("out")))
    return job


BOTH = [
    {"ignoreMissingFiles": True},
    {"IGNOREMISSINGFILES": "TRUE"},
    {"ignoreCorruptFiles": "true"},
    {"fileNameOnly": True},
    {"failOnDataLoss": False},
]


@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("options", BOTH, ids=lambda option: next(iter(option)))
def test_an_option_that_loses_rows_is_refused(
    spark: SparkSession, world: World, mode: str, options: dict[str, Any]
) -> None:
    world.put_ids("in", 1, 2)
    with pytest.raises(UnfitSourceError, match=f"'rows' .*{next(iter(options))}="):
        plan_job(spark, job(world, bounded=True, **options), world.options(mode=mode))
    assert world.everything_under_root() == []


@pytest.mark.parametrize(
    ("bounded", "watermark", "options"),
    [
        (True, None, {"maxFileAge": "1d"}),
        (True, None, {"latestFirst": True}),
        (False, ("ts", "1 hour"), {"latestFirst": True}),
        (False, None, {"modifiedAfter": "2020-01-01T00:00:00"}),
        (False, None, {"modifiedBefore": "2020-01-01T00:00:00"}),
    ],
)
def test_an_option_unfit_for_this_kind_of_source_is_refused(
    spark: SparkSession, world: World, bounded: bool, watermark: tuple[str, str] | None, options: dict[str, Any]
) -> None:
    world.put_ids("in", 1, 2)
    with pytest.raises(UnfitSourceError, match=next(iter(options))):
        plan_job(spark, job(world, bounded=bounded, watermark=watermark, **options), world.options(mode="streaming"))


def test_harmless_values_of_checked_options_are_accepted(spark: SparkSession, world: World) -> None:
    world.put_ids("in", 1, 2)
    live = job(world, bounded=False, ignoreMissingFiles=False, failOnDataLoss=True, maxFileAge="30d", latestFirst=True)
    assert plan_job(spark, live, world.options()).mode == "streaming"
    ended = job(world, bounded=True, modifiedAfter="2020-01-01T00:00:00", ignoreCorruptFiles="false")
    assert plan_job(spark, ended, world.options()).mode == "batch"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.files.ignoreMissingFiles", "true"),
        ("spark.sql.files.ignoreCorruptFiles", "TRUE"),
        ("spark.sql.files.ignoreInvalidPartitionPaths", "true"),
        ("spark.sql.sources.partitionColumnTypeInference.enabled", "true"),
        ("spark.sql.streaming.minBatchesToRetain", "1"),
        ("spark.sql.streaming.unsupportedOperationCheck", "false"),
        ("spark.sql.streaming.statefulOperator.checkCorrectness.enabled", "false"),
        ("spark.sql.streaming.asyncProgressTrackingEnabled", "true"),
        ("spark.sql.streaming.continuous.executorQueueSize", "3"),
        ("spark.sql.streaming.realTimeMode.minBatchDuration", "3"),
    ],
)
def test_a_setting_that_loses_rows_is_refused(key: str, value: str) -> None:
    with pytest.raises(UnfitSettingError, match=key):
        session_conf({key: value})


def test_harmless_values_of_checked_settings_are_accepted() -> None:
    given = {"spark.sql.files.ignoreMissingFiles": "false", "spark.sql.streaming.unsupportedOperationCheck": "true"}
    assert session_conf(given).items() >= given.items()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("providerClass", "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"),
        ("checkpointFormatVersion", "1"),
    ],
)
def test_r4_a_state_store_without_rewind_is_refused(key: str, value: str) -> None:
    """Measured: the default store counts 7 instead of 10 after a rewind."""
    with pytest.raises(UnfitSettingError, match=f"{key}.*{value}"):
        session_conf({f"spark.sql.streaming.stateStore.{key}": value})


def test_the_default_state_store_is_set_and_may_be_named() -> None:
    assert session_conf(dict(STATE_STORE)).items() >= STATE_STORE.items()
    assert session_conf({}).items() >= {**STATE_STORE, **NEEDED}.items()


# ---- the environment of a user's function


def test_every_function_has_an_active_session(world: World) -> None:
    world.put_ids("in", 2, 2)
    has_session: list[bool] = []
    job = Job("asks")

    @job.source(bounded=True)
    def rows(read: Any) -> DataFrame:
        has_session.append(SparkSession.getActiveSession() is not None)
        return read.schema(IDS).parquet(world.path("in"))  # type: ignore[no-any-return]

    @job.transform(inputs=[rows])
    def looked_up(rows: DataFrame) -> DataFrame:
        active = SparkSession.getActiveSession()
        has_session.append(active is not None)
        return rows if active is None else rows.join(active.range(1000).withColumnRenamed("id", "k"), "k", "left")

    job.sink("out", looked_up, FileSink(world.path("out")))
    assert world.run(job, mode="streaming").status == "FINISHED"
    assert len(has_session) > 4  # from the planner and from the runner's thread
    assert all(has_session)


def test_workers_of_a_local_master_run_the_python_of_the_driver(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers must not use the python3 that PATH finds if the environment is not activated."""

    def python_of(**conf: str) -> str | None:
        monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
        monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: spark)
        session.build_session("one", {"spark.master": "local[2]", **conf})
        return os.environ.get("PYSPARK_PYTHON")

    assert python_of() == sys.executable
    assert python_of(**{"spark.master": "spark://127.0.0.1:7077"}) is None
    assert python_of(**{"spark.pyspark.python": "/bin/sh"}) == "/bin/sh", "the setting wins"
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    session.build_session("one", {"spark.master": "local[2]"})
    assert Path(os.environ["PYSPARK_PYTHON"]) == Path("/opt/python")
