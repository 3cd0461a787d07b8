"""Settings of Spark's session that one query is to have and the others are not: it takes them when it starts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

_SHUFFLE = "spark.sql.shuffle.partitions"
POLLING = "spark.sql.streaming.pollingDelay"

LOOK = 90
"""Milliseconds between two looks of an idle query at what it reads, where the job's conf does not say."""
AFAR = 1000
"""The same where a look lists a folder that is not on a disk of this machine. An object store takes money for it: $146
a month at S3's list prices for one source each 90 ms. Workers look at each other as rarely there."""
CONSUMER_LOOKS = 2
"""A query that reads nothing but result partitions waits so many times as long between two looks as one that reads
sources. Whoever waits for a new row waits for the look of a source first; and most queries of an idle job are such."""

_STARTING = threading.Lock()
"""A query copies the session's settings when it starts: nobody starts one while they are those of another."""


@contextmanager
def starting(
    spark: SparkSession, state_partitions: int | None, *, is_consumer: bool = False, folders: Iterable[str] = ()
) -> Iterator[None]:
    """Every query is started in here. ``state_partitions``: of this one; None: as many as the session says.
    ``is_consumer``: it reads result partitions alone. ``folders``: what it looks at, as URIs or paths."""
    with _STARTING:
        settings = _settings(spark, state_partitions, is_consumer, any(map(_is_afar, folders)))
        before = {key: str(spark.conf.get(key)) for key in settings}
        try:
            for key, value in settings.items():
                spark.conf.set(key, value)
            yield
        finally:
            for key, value in before.items():
                spark.conf.set(key, value)


def _settings(spark: SparkSession, state_partitions: int | None, is_consumer: bool, is_afar: bool) -> dict[str, str]:
    """Nobody else starts a query meanwhile: what the session says is not that of another."""
    found = {} if state_partitions is None else {_SHUFFLE: str(state_partitions)}
    is_afar = is_afar and spark.conf.get(POLLING) == f"{LOOK}ms"
    if is_afar or is_consumer:
        session: Any = spark._jsparkSession  # asked for it as text it may be in any unit of time
        wait = AFAR if is_afar else session.sessionState().conf().streamingPollingDelay()
        found[POLLING] = f"{CONSUMER_LOOKS * wait if is_consumer else wait}ms"
    return found


def _is_afar(folder: str) -> bool:
    """By its form: a name without a scheme is a path of this machine, as far as anybody can tell here."""
    scheme, _, rest = folder.partition(":")
    return bool(rest) and "/" not in scheme and scheme.lower() != "file"
