"""Settings of Spark's session that one query is to have and the others are not: it takes them when it starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

_SHUFFLE = "spark.sql.shuffle.partitions"
_POLLING = "spark.sql.streaming.pollingDelay"

CONSUMER_LOOKS = 2
"""A query that reads nothing but result partitions waits so many times as long between two looks as one that reads
sources. Whoever waits for a new row waits for the look of a source first; and most queries of an idle job are such."""

_STARTING = threading.Lock()
"""A query copies the session's settings when it starts: nobody starts one while they are those of another."""


@contextmanager
def starting(spark: SparkSession, state_partitions: int | None, *, is_consumer: bool = False) -> Iterator[None]:
    """Every query is started in here. ``state_partitions``: of this one; None: as many as the session says.
    ``is_consumer``: it reads result partitions alone."""
    with _STARTING:
        settings = _settings(spark, state_partitions, is_consumer)
        before = {key: str(spark.conf.get(key)) for key in settings}
        try:
            for key, value in settings.items():
                spark.conf.set(key, value)
            yield
        finally:
            for key, value in before.items():
                spark.conf.set(key, value)


def _settings(spark: SparkSession, state_partitions: int | None, is_consumer: bool) -> dict[str, str]:
    """Nobody else starts a query meanwhile: what the session says is not that of another."""
    found = {} if state_partitions is None else {_SHUFFLE: str(state_partitions)}
    if is_consumer:
        session: Any = spark._jsparkSession  # asked for it as text it may be in any unit of time
        found[_POLLING] = f"{CONSUMER_LOOKS * session.sessionState().conf().streamingPollingDelay()}ms"
    return found
