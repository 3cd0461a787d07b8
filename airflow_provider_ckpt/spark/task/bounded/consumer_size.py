"""The number of shuffle partitions of a batch consumer, by the bytes of the results that it reads (FLIP-383, FLIP-187).

Spark starts each query with the same number (``spark.sql.shuffle.partitions``, 200). In a batch it may lower the
number, but never raises it. Without this module a consumer of a terabyte would have partitions of 5 GB.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.app.jvm_state import is_gone

_ADAPTIVE = "spark.sql.adaptive.enabled"
_COALESCES = "spark.sql.adaptive.coalescePartitions.enabled"
_INITIAL = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
_ADVISORY = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_DEFAULT = "spark.sql.shuffle.partitions"
UNPACKED = 2
"""Bytes in a shuffle for each byte of a result file, because result files are compressed by columns."""
MOST = 10_000
"""Maximum number of partitions. More partitions cost the driver more time than they save."""


def initial_partitions(read: int, advisory: int, default: int) -> int:
    """Return the number of shuffle partitions with which a batch consumer starts.

    Args:
        read: bytes of all results that the consumer reads.
        advisory: wanted bytes of one partition.
        default: minimum of the returned number.
    """
    return max(default, min(MOST, math.ceil(read * UNPACKED / advisory)))


@contextmanager
def sized_for(spark: SparkSession, read: int) -> Iterator[None]:
    """Set the number of shuffle partitions for a consumer that reads ``read`` bytes, during the block.

    A number that the user has set stays. The setting is changed in the shared session, because another session would
    lack the functions and views that the user's function makes. Batch vertices run one after the other, so their
    settings do not interfere. A split that is read meanwhile starts with too many partitions, and Spark lowers their
    number.
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
    """Return a setting in bytes. The setting may have any unit."""
    jvm = spark._jvm
    assert jvm is not None
    return int(jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(_text(spark, key)))
