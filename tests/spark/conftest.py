"""One Spark driver for all tests here, built as a job builds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.session import build_session
from tests.spark.harness import World


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    scratch = tmp_path_factory.mktemp("spark")
    session = build_session(
        "tests",
        {
            "spark.master": "local[2]",
            # state stores of the tests before stay loaded for a while, and count against what tasks may use
            "spark.driver.memory": "2g",
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            # an idle query looks for new files so often; with the 10 ms of Spark's own it does little else
            "spark.sql.streaming.pollingDelay": "50ms",
        },
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    """The driver is shared: what a test sets in it is taken back, and a job that has ended leaves nothing running."""
    settings, listeners = dict(spark.conf.getAll), _listeners(spark)
    yield World(tmp_path)
    left = [query.name for query in spark.streams.active]
    for query in spark.streams.active:
        query.stop()
    _take_back(spark, settings)
    assert (left, _listeners(spark)) == ([], listeners)


def _listeners(spark: SparkSession) -> int:
    return len(spark._jsparkSession.streams().listListeners())


def _take_back(spark: SparkSession, settings: dict[str, str]) -> None:
    now = spark.conf.getAll
    for key in now.keys() - settings.keys():
        spark.conf.unset(key)
    for key, value in settings.items():
        if now.get(key) != value:
            spark.conf.set(key, value)
