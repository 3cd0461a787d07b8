"""Settings of Spark's session that one query is to have and the others are not: it takes them when it starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_SHUFFLE = "spark.sql.shuffle.partitions"
_STARTING = threading.Lock()
"""A query copies the session's settings when it starts: nobody starts one while they are those of another."""


@contextmanager
def starting(spark: SparkSession, state_partitions: int | None) -> Iterator[None]:
    """Every query is started in here. ``state_partitions``: of this one; None: as many as the session says."""
    with _STARTING:
        if state_partitions is None:
            yield
            return
        before = spark.conf.get(_SHUFFLE)
        spark.conf.set(_SHUFFLE, str(state_partitions))
        try:
            yield
        finally:
            spark.conf.set(_SHUFFLE, str(before))
