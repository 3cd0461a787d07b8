"""Fixtures for aging jobs, which share the Spark driver of the other tests."""

from __future__ import annotations

from tests.spark.conftest import world
from tests.support.spark_driver import spark

__all__ = ["spark", "world"]
