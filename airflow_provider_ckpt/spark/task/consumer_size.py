"""How many partitions the shuffles of a consumer begin with, by the bytes of the results that it reads (FLIP-383 asks
for them, and FLIP-187 sizes batch consumers by them).

Spark has one number for every query, whatever it reads (``spark.sql.shuffle.partitions``, 200), and in a batch makes
fewer of them by what really came through the shuffle, but never more. So it is only raised here: a consumer of a
terabyte would have partitions of 5 GB, and one of a gigabyte is as before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.task.jvm import is_gone

_ADAPTIVE = "spark.sql.adaptive.enabled"
_COALESCES = "spark.sql.adaptive.coalescePartitions.enabled"
_INITIAL = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
_ADVISORY = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_DEFAULT = "spark.sql.shuffle.partitions"
UNPACKED = 2
"""A byte of a result, which is packed in columns, is about so many of rows in a shuffle."""
MOST = 10_000
"""More cost the driver more than they save."""


def initial_partitions(read: int, advisory: int, default: int) -> int:
    """``read``: bytes of all results that the consumer reads; ``advisory``: of one partition."""
    return max(default, min(MOST, math.ceil(read * UNPACKED / advisory)))


@contextmanager
def sized_for(spark: SparkSession, read: int) -> Iterator[None]:
    """Within it the shuffles of batch queries begin with partitions for so many bytes, unless the user has said more.

    It is the session's setting meanwhile: batch vertices run one after the other, and if a split is read beside, it
    begins with more partitions than it needs, of which Spark makes fewer. A session of its own would not have the
    functions and views that the user's function makes in the one that it finds active; and only of what is large.
    """
    if not read:
        yield
        return
    default = int(_text(spark, _DEFAULT))
    number = initial_partitions(read, _bytes(spark, _ADVISORY), default)
    is_adaptive = _text(spark, _ADAPTIVE) == _text(spark, _COALESCES) == "true"
    if number == default or not is_adaptive or spark.conf.get(_INITIAL, None) is not None:
        yield
        return
    spark.conf.set(_INITIAL, str(number))
    try:
        yield
    finally:
        if not is_gone():
            spark.conf.unset(_INITIAL)


def _text(spark: SparkSession, key: str) -> str:
    return str(spark.conf.get(key)).lower()


def _bytes(spark: SparkSession, key: str) -> int:
    """A setting in bytes, however it is written."""
    jvm = spark._jvm
    assert jvm is not None
    return int(jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(_text(spark, key)))
