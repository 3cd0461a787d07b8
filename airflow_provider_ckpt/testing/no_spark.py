"""A process without Spark, such as that of ``ckpt release``, which has handles but no session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from pyspark import SparkContext
from pyspark.sql import SparkSession


@contextmanager
def without_spark() -> Iterator[None]:
    """Hide the Spark session inside the block, and make the creation of a session fail (R16).

    Only one thread of a test may use the block, because other threads cannot use Spark during it.
    """
    with (
        patch.object(SparkContext, "_active_spark_context", None),
        patch.object(SparkSession, "_instantiatedSession", None),
        patch.object(SparkContext, "_ensure_initialized", _refuse),
    ):
        yield


def _refuse(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("a sink has used Spark in a release, which must also work without Spark")
