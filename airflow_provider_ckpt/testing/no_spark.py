"""A process without Spark, such as that of ``ckpt release``: who releases there has handles, and no session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from pyspark import SparkContext
from pyspark.sql import SparkSession


@contextmanager
def without_spark() -> Iterator[None]:
    """Inside it there is no session, and whoever makes one fails (R16). For one thread of a test: what others do with
    Spark meanwhile may fail, too."""
    with (
        patch.object(SparkContext, "_active_spark_context", None),
        patch.object(SparkSession, "_instantiatedSession", None),
        patch.object(SparkContext, "_ensure_initialized", _refuse),
    ):
        yield


def _refuse(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("a sink has asked for Spark to release: that is also done where there is none")
