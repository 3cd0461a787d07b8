"""Fixtures of the Spark tests: each test has its own job, and all tests share one Spark driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.fed_partition import FedPartition
from tests.spark.harness import World
from tests.support.spark_driver import spark

__all__ = ["spark"]


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    """Yield a job's folder, then undo every change to the shared driver.

    A test must leave no query and no listener running.
    """
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


@pytest.fixture
def partition(spark: SparkSession, tmp_path: Path) -> FedPartition:
    return FedPartition(spark, tmp_path)
