"""Fixture: one Spark driver for all random jobs of a run."""

from tests.support.spark_driver import spark

__all__ = ["spark"]
