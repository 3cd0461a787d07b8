"""The settings of a run: recorded settings override given ones. No Spark runs here."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from airflow_provider_ckpt.spark.app.kept_settings import JVM_ZONE, PYTHON_ZONE, SETTINGS, keep_settings

ZONE = "spark.sql.session.timeZone"
LEGACY = "spark.sql.legacy.castComplexTypesToString.enabled"


class Conf:
    """The settings of a session that knows all :data:`SETTINGS` except one."""

    def __init__(self) -> None:
        self.values = {**dict.fromkeys(SETTINGS[1:], "default"), LEGACY: "false"}
        self.changed: list[str] = []

    def get(self, key: str) -> str:
        if key not in self.values:
            raise PySparkException("no such setting")
        return self.values[key]

    def set(self, key: str, value: str) -> None:
        self.values[key] = value
        self.changed.append(key)

    def unset(self, key: str) -> None:
        self.values[key] = "default"

    def isModifiable(self, key: str) -> bool:
        return key in self.values


class Zones:
    """Java's time zones."""

    def __init__(self) -> None:
        self.zone = "UTC"

    def getDefault(self) -> Any:
        return self.getTimeZone(self.zone)

    def setDefault(self, zone: Any) -> None:
        self.zone = zone.getID()

    @staticmethod
    def getTimeZone(name: str) -> Any:
        return SimpleNamespace(getID=lambda: name)


class Session:
    """A session. ``submitted``: the settings given to spark-submit."""

    def __init__(self, **submitted: str) -> None:
        self.conf, self.zones = Conf(), Zones()
        given = {key.replace("_", "."): value for key, value in submitted.items()}
        jvm = SimpleNamespace(java=SimpleNamespace(util=SimpleNamespace(TimeZone=self.zones)))
        conf = SimpleNamespace(getAll=lambda: list(given.items()))
        self.sparkContext = SimpleNamespace(getConf=lambda: conf, environment={}, _jvm=jvm)


@pytest.fixture(autouse=True)
def zone_of_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_first_run_records_its_session_and_given_settings() -> None:
    spark: Any = Session(spark_sql_session_timeZone="Europe/Oslo")
    spark.conf.values[ZONE] = "Europe/Oslo"
    kept = keep_settings(spark, {LEGACY: "true", "spark.sql.shuffle.partitions": "3"}, {})
    assert kept.values == {
        **dict.fromkeys(SETTINGS[1:], "default"),
        ZONE: "Europe/Oslo",
        LEGACY: "true",
        PYTHON_ZONE: "UTC",
        JVM_ZONE: "UTC",
    }
    assert (kept.ignored, spark.conf.changed) == ({}, [])
    assert spark.sparkContext.environment == {PYTHON_ZONE: "UTC"}


def test_a_later_run_uses_recorded_settings_and_reports_ignored_ones() -> None:
    spark: Any = Session(spark_sql_session_timeZone="UTC")
    spark.conf.values |= {ZONE: "UTC", LEGACY: "true"}
    recorded = {ZONE: "Europe/Oslo", "spark.sql.ansi.enabled": "default", PYTHON_ZONE: "Asia/Tokyo", JVM_ZONE: "CET"}
    kept = keep_settings(spark, {LEGACY: "true", "spark.sql.ansi.enabled": "DEFAULT"}, recorded)
    assert kept.values == recorded
    assert kept.ignored == {
        ZONE: ("UTC", "Europe/Oslo"),
        LEGACY: ("true", "Spark's default"),
        PYTHON_ZONE: ("UTC", "Asia/Tokyo"),
    }
    assert (spark.conf.values[ZONE], spark.conf.values[LEGACY]) == ("Europe/Oslo", "default")
    assert spark.conf.changed == [ZONE], "Spark warns of a deprecated setting each time that it is set"
    assert (spark.zones.zone, spark.sparkContext.environment) == ("CET", {PYTHON_ZONE: "Asia/Tokyo"})
    assert (os.environ["TZ"], time.tzname[0]) == ("Asia/Tokyo", "JST")


def test_the_time_zone_of_the_workers_decides_for_python() -> None:
    spark: Any = Session(spark_executorEnv_TZ="Europe/Oslo")
    assert keep_settings(spark, {}, {}).values[PYTHON_ZONE] == "Europe/Oslo"
    assert os.environ["TZ"] == "Europe/Oslo"


def test_an_ignored_time_zone_of_the_jvm_is_reported() -> None:
    spark: Any = Session(spark_driver_extraJavaOptions="-Duser.timezone=UTC")
    (notice,) = keep_settings(spark, {}, {PYTHON_ZONE: "UTC", JVM_ZONE: "CET"}).notices()
    assert notice.startswith("the JVM's time zone UTC has no effect: the job has CET since its first run")
    assert "--new-settings" in notice
