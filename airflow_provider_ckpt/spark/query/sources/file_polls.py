"""Lists of a source's files with sizes and times, and the wait until their producers have finished writing."""

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
"""Maximum seconds of a wait for unchanged files. After that the files are read even if they still change."""
_PAUSE = 0.5
_USUAL = 1.5
"""Factor of ``SETTLED``. A wait for unchanged files is reported if it takes longer than the product."""


def await_settled(
    poll: Callable[[], Iterable[FileStatus]],
    is_over: Callable[[], bool] = lambda: False,
    report: Callable[[FileStatus, float], None] = lambda file, seconds: None,
    waited: float = 0.0,
) -> None:
    """Wait until each file was last modified more than ``SETTLED`` seconds ago. Wait ``LONGEST_WAIT`` seconds at most.

    The storage's clock may differ from this host's clock. So the wait also ends when polls have found the same recent
    files, sizes and times for ``SETTLED`` seconds.

    Args:
        poll: returns the files with their sizes and times.
        is_over: returns True if the wait must end early.
        report: called with (file that was modified last, seconds waited). The first call comes after ``_USUAL`` times
            ``SETTLED`` seconds, and the next calls when the seconds have doubled.
        waited: seconds of earlier waits for the same files. They count as part of this wait.
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
    """Return the files of a source; empty if Spark cannot list its folder, which may be gone after it was read."""
    with suppress(PySparkException, Py4JError):
        return list_statuses(spark, reads)
    return []


def statuses_now(spark: SparkSession, paths: Iterable[str]) -> list[FileStatus]:
    """Return size and time of each file of ``paths`` that still exists. Each file takes three calls of the JVM."""
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    statuses = []
    for path in paths:
        hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
        with suppress(Py4JError):  # it was moved or deleted
            statuses.append(read_status(hadoop_path.getFileSystem(conf).getFileStatus(hadoop_path).toString()))
    return statuses
