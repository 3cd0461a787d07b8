"""Session settings for a single query. A query copies the session's settings when it starts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

_SHUFFLE = "spark.sql.shuffle.partitions"
POLLING = "spark.sql.streaming.pollingDelay"

POLL_MS = 90
"""Milliseconds between two polls of an idle query for new input, if the user has not set another interval."""
REMOTE_POLL_MS = 1000
"""Milliseconds between two polls of an idle query that lists a folder outside of this machine.

Object stores charge for each listing: $146 a month at S3's list prices for one source at 90 ms.
"""
CONSUMER_POLL_FACTOR = 2
"""Factor for the poll interval of a query over result partitions, which waits for the query that reads the source."""

_STARTING = threading.Lock()
"""Lock that a query holds while it starts, because it copies the session's settings then."""


@contextmanager
def settings_at_start(
    spark: SparkSession, state_partitions: int | None, *, is_consumer: bool = False, folders: Iterable[str] = ()
) -> Iterator[None]:
    """Change the session's settings while a query starts in this block. Every query must start in such a block.

    Args:
        state_partitions: number of the query's state partitions; None for the number in the session's settings.
        is_consumer: True if the query reads only result partitions.
        folders: URIs or paths of the folders that the query polls.
    """
    with _STARTING:
        settings = _settings(spark, state_partitions, is_consumer, any(map(_is_remote, folders)))
        previous = {key: str(spark.conf.get(key)) for key in settings}
        try:
            for key, value in settings.items():
                spark.conf.set(key, value)
            yield
        finally:
            for key, value in previous.items():
                spark.conf.set(key, value)


def _settings(spark: SparkSession, state_partitions: int | None, is_consumer: bool, is_remote: bool) -> dict[str, str]:
    """Return the settings for a query. The caller must hold the lock, because other queries change the session."""
    settings = {} if state_partitions is None else {_SHUFFLE: str(state_partitions)}
    is_remote = is_remote and spark.conf.get(POLLING) == f"{POLL_MS}ms"
    if is_remote or is_consumer:
        session: Any = spark._jsparkSession  # as text, the setting could have any unit of time
        wait = REMOTE_POLL_MS if is_remote else session.sessionState().conf().streamingPollingDelay()
        settings[POLLING] = f"{CONSUMER_POLL_FACTOR * wait if is_consumer else wait}ms"
    return settings


def _is_remote(folder: str) -> bool:
    """Return whether a URI shows that the folder is outside of this machine. A path without a scheme is local."""
    scheme, _, path = folder.partition(":")
    return bool(path) and "/" not in scheme and scheme.lower() != "file"
