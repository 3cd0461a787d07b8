"""Polling of a source's files while it is read, and waiting until their producers have finished them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_provider_ckpt.model.file_status import FileStatus
from airflow_provider_ckpt.spark.query.sources.file_index import read_status
from airflow_provider_ckpt.spark.query.sources.frozen_files import list_statuses
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads

SETTLED = 10.0
"""Seconds without a change after which a file counts as finished."""
LONGEST_WAIT = 600.0
"""Seconds after which a file that keeps changing is read all the same."""
_PAUSE = 0.5
_USUAL = 1.5
"""Times ``SETTLED``: a longer wait is reported."""


def await_settled(
    poll: Callable[[], Iterable[FileStatus]],
    is_over: Callable[[], bool] = lambda: False,
    report: Callable[[FileStatus, float], None] = lambda file, seconds: None,
    waited: float = 0.0,
) -> None:
    """Return when no file has changed for ``SETTLED`` seconds, or after ``LONGEST_WAIT``.

    The clock of the storage may differ from the clock of this host. So it is also enough if two polls, ``SETTLED``
    seconds apart, find the same files.

    Args:
        poll: lists the files with their sizes and times.
        is_over: ends the wait when it returns True.
        report: takes the file that changed last, and the seconds that were waited. Called if the wait is longer than
            usual, after twice as many seconds each time.
        waited: seconds that count as waited when this wait begins.
    """
    unchanged_since = time.monotonic()
    began, report_after = unchanged_since - waited, max(SETTLED * _USUAL, 2 * waited)
    previous: set[FileStatus] | None = None
    while not is_over():
        earliest, polled_at = (time.time() - SETTLED) * 1000, time.monotonic()
        young = {file for file in poll() if file.modified > earliest}
        now = time.monotonic()
        if young != previous:
            previous, unchanged_since = young, now
        if not young or now - unchanged_since >= SETTLED or now - began >= LONGEST_WAIT:
            return
        if now - began >= report_after:
            report(max(young, key=lambda file: file.modified), now - began)
            report_after *= 2
        time.sleep(max(_PAUSE, now - polled_at))


def listed(spark: SparkSession, reads: SourceReads) -> list[FileStatus]:
    """Return the files of a source; none if the folder cannot be listed, because it may be gone after it was read."""
    with suppress(PySparkException, Py4JError):
        return list_statuses(spark, reads)
    return []


def statuses_now(spark: SparkSession, paths: Iterable[str]) -> list[FileStatus]:
    """Return the files that still exist. Each file takes three calls of the JVM."""
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    statuses = []
    for path in paths:
        hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
        with suppress(Py4JError):  # it was moved or deleted
            statuses.append(read_status(hadoop_path.getFileSystem(conf).getFileStatus(hadoop_path).toString()))
    return statuses
