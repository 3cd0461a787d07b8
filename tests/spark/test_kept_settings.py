"""Settings that change values: a job keeps the settings of its first run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import IntegerType

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.app.kept_settings import JVM_ZONE, PYTHON_ZONE, SETTINGS, KeptSettings, keep_settings
from tests.spark.harness import Run, World

ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"
PARSER = "spark.sql.legacy.timeParserPolicy"
NOON = "2026-01-15 12:00:00"
UTC_NOON, OSLO_NOON = 1_768_478_400, 1_768_474_800


@pytest.fixture(autouse=True)
def restored_settings(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the settings of the session and of the processes afterwards."""
    jvm: Any = spark.sparkContext._jvm
    before = {key: str(spark.conf.get(key)) for key in SETTINGS if spark.conf.isModifiable(key)}
    zone, environment = jvm.java.util.TimeZone.getDefault(), dict(spark.sparkContext.environment)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
    jvm.java.util.TimeZone.setDefault(zone)
    spark.sparkContext.environment.clear()
    spark.sparkContext.environment.update(environment)
    for key, value in before.items():
        spark.conf.set(key, value)


def copying(world: World, *columns: str) -> Job:
    job = Job("copying")

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema("id long, at string").parquet(world.path("live"))

    @job.transform(inputs=[live])
    def read_at(rows: DataFrame) -> DataFrame:
        hour = F.udf(lambda at: datetime.fromtimestamp(0).hour, IntegerType())  # noqa: DTZ006 - the zone is tested
        return rows.select("id", hour("at").alias("hour"), *map(F.expr, columns))

    job.sink("out", read_at, FileSink(world.path("out")))
    return job


def next_row(world: World, job: Job, text: str = NOON, **given: Any) -> Run:
    """Put a row, run the job until the row is released, and stop it."""
    number = world.puts
    world.put("live", f"{number:06d}", [{"id": number, "at": text}])
    run = world.run(job, world.ask("stop", lambda: world.released_count("out") > number), **given)
    assert run.status == "STOPPED", run.cause
    return run


def column(world: World, name: str) -> list[Any]:
    return [row[name] for row in sorted(world.released(), key=lambda row: int(row["id"]))]


def warnings(run: Run) -> str:
    return "\n".join(line["message"] for line in run.of("warning"))


def test_the_first_time_zone_is_kept_until_new_settings_are_requested(world: World) -> None:
    job = copying(world, "unix_seconds(cast(at AS timestamp)) AS seconds")
    assert ZONE not in warnings(next_row(world, job, conf={ZONE: "Europe/Oslo"}))
    warning = warnings(next_row(world, job, conf={ZONE: "UTC"}))
    assert f"{ZONE}=UTC has no effect: the job has Europe/Oslo since its first run" in warning
    assert "--new-settings" in warning
    assert column(world, "seconds") == [OSLO_NOON, OSLO_NOON]

    assert ZONE not in warnings(next_row(world, job, conf={ZONE: "UTC"}, new_settings=True))
    assert "UTC has no effect" not in warnings(next_row(world, job, conf={ZONE: "UTC"}))
    assert column(world, "seconds") == [OSLO_NOON, OSLO_NOON, UTC_NOON, UTC_NOON]
    definition = world.state().definition
    assert definition is not None
    assert definition.session[ZONE] == "UTC"


def test_a_default_of_the_first_run_is_kept_under_another_default(spark: SparkSession, world: World) -> None:
    job = copying(world, "unix_seconds(cast(at AS timestamp)) AS seconds", "cast(at AS int) AS number")
    next_row(world, job, conf={ZONE: "Europe/Oslo", ANSI: "false"})
    spark.conf.set(ZONE, "Asia/Tokyo")
    spark.conf.set(ANSI, "true")
    assert "has no effect" not in warnings(next_row(world, job))
    assert column(world, "seconds") == [OSLO_NOON, OSLO_NOON]
    assert column(world, "number") == [None, None]


def test_a_legacy_setting_missing_in_the_first_run_is_not_added(spark: SparkSession, world: World) -> None:
    key = "spark.sql.legacy.castComplexTypesToString.enabled"
    job = copying(world, "cast(array(at, NULL) AS string) AS text")
    next_row(world, job, "a")
    try:
        assert f"{key}=true has no effect: the job has Spark's default" in warnings(
            next_row(world, job, "b", conf={key: "true"})
        )
    finally:
        spark.conf.unset(key)
    assert column(world, "text") == ["[a, null]", "[b, null]"]


def test_a_static_legacy_setting_that_the_first_run_did_not_have_ends_no_run(spark: SparkSession) -> None:
    key = "spark.sql.legacy.sessionInitWithConfigDefaults"
    assert not spark.conf.isModifiable(key)
    kept = keep_settings(spark, {key: "true"}, {PYTHON_ZONE: "UTC", JVM_ZONE: "UTC"})
    assert kept.ignored == {key: ("true", "Spark's default")}


def test_python_functions_keep_the_time_zone_of_the_first_run(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = copying(world)
    monkeypatch.setenv("TZ", "Europe/Oslo")
    time.tzset()
    next_row(world, job)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    warning = warnings(next_row(world, job))
    assert "the time zone UTC of this process has no effect: the job has Europe/Oslo" in warning
    assert (os.environ["TZ"], datetime.fromtimestamp(0).hour) == ("Europe/Oslo", 1)  # noqa: DTZ006
    assert column(world, "hour") == [1, 1]


def test_the_time_zone_of_the_jvm_is_kept(spark: SparkSession, world: World) -> None:
    zones: Any = spark.sparkContext._jvm.java.util.TimeZone  # type: ignore[union-attr]
    job = copying(world)
    zones.setDefault(zones.getTimeZone("Europe/Oslo"))
    next_row(world, job)
    zones.setDefault(zones.getTimeZone("UTC"))
    next_row(world, job)
    assert zones.getDefault().getID() == "Europe/Oslo"


def test_spark_can_modify_every_kept_setting(spark: SparkSession) -> None:
    assert [key for key in SETTINGS if not spark.conf.isModifiable(key)] == []


def test_an_ignored_setting_is_reported_with_both_values() -> None:
    (notice,) = KeptSettings({}, {"user.timezone": ("UTC", "Europe/Oslo")}).notices()
    assert notice.startswith("the JVM's time zone UTC has no effect: the job has Europe/Oslo since its first run")


def test_a_forged_journal_sets_no_other_setting(spark: SparkSession) -> None:
    """A forged entry can hold any setting, and some settings name a class that Spark loads."""
    provider = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(provider)
    zone = {PYTHON_ZONE: "UTC", JVM_ZONE: "UTC"}
    kept = keep_settings(spark, {}, {**zone, ANSI: "false", provider: "attacker.Provider"})
    assert (spark.conf.get(provider), spark.conf.get(ANSI)) == (before, "false")
    assert provider not in kept.values
