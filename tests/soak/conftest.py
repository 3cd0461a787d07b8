"""Jobs that grow old, in the Spark driver of all of them."""

from __future__ import annotations

from tests.spark.conftest import world
from tests.support.spark_driver import spark

__all__ = ["spark", "world"]
