"""One Spark driver for all random jobs of a run."""

from tests.spark.conftest import spark

__all__ = ["spark"]
