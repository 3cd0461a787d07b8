"""Late files: files that appear in a bounded source's folder after the source's end was frozen."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_provider_ckpt.job.user_failure import PATH_NOT_FOUND, spark_condition
from airflow_provider_ckpt.journal.events import LateFilesFound
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.spark.query.errors import FrozenListLostError
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.query.sources.frozen_files import (
    LISTING,
    FrozenFiles,
    list_files,
    read_frozen,
    unescaped_path,
)
from airflow_provider_ckpt.spark.query.sources.known_late import KnownLate, file_sources
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)
NAMED = 100
"""Maximum number of late files that an event in the journal names."""


def name_late_files(
    spark: SparkSession,
    storage: Storage,
    state: JobState,
    reads: Mapping[str, SourceReads],
    frozen: Mapping[str, FrozenEnd],
    read: Collection[str],
    report: Callable[[LateFilesFound], None],
    followers: Mapping[str, SourceReads],
) -> None:
    """Report the late files that no run has reported, in separate events for files that were read and for unread files.

    Queries may read a late file if it appears before the source ends. If the process dies during this call, a later run
    reports some files again.

    Args:
        reads: source uid -> format, paths and options.
        frozen: source uid -> frozen end. Only ends of files are checked.
        read: normal paths of the late files that queries have read.
        report: called with each event.
        followers: bounded source -> reads of the live source whose ``after`` names the bounded source. A file that this
            live source reads is not late.

    Raises NewerFormatError, and what ``report`` and the storage raise.
    """
    for uid, files in frozen.items():
        if not isinstance(files, FrozenFiles):
            continue  # messages after the end of a Kafka source are not late, because they are not part of it
        try:
            listed = list_files(spark, reads[uid])
        except (PySparkException, Py4JError) as error:
            if spark_condition(error) != PATH_NOT_FOUND:
                log.warning("bounded source %s cannot be listed for late files: %s", uid, error)
                continue
            listed = ()  # the folder was removed after it was read
        late = {path for path in listed if unescaped_path(path) not in files.normal}
        live = followers.get(uid)
        if live is not None and late:
            late -= {*list_files(spark, live)}
        _report_new(late, storage, uid, state, () if live is not None else read, report)


def _report_new(
    late: Collection[str],
    storage: Storage,
    uid: str,
    state: JobState,
    read: Collection[str],
    report: Callable[[LateFilesFound], None],
) -> None:
    of_source = state.frozen.get(uid)
    if of_source is None or of_source.path is None:
        return
    store = KnownLate(storage, f"{state.job_id}/{of_source.path}", uid)
    seen = store.read()
    new = sorted({*late} - seen.files)
    for was_read in (True, False):
        paths = [path for path in new if (unescaped_path(path) in read) is was_read]
        if paths:
            count = len(paths) if len(paths) > NAMED else None
            report(LateFilesFound(uid, tuple(paths[:NAMED]), was_read, time.time(), count))
    if seen.epoch <= state.epoch:  # otherwise a later driver has checked since
        store.write(state.epoch, late)


def reads_of_finished(storage: Storage, state: JobState) -> tuple[dict[str, SourceReads], dict[str, FrozenFiles]]:
    """Return (source uid -> its reads, source uid -> its frozen list) for the bounded file sources.

    The reads come from the journal, because functions of finished sources are not called. A source whose stored list is
    lost is only in the first mapping.

    Raises NewerFormatError.
    """
    reads: dict[str, SourceReads] = {}
    frozen: dict[str, FrozenFiles] = {}
    for uid, path in file_sources(state).items():
        source = state.definition.sources[uid]  # type: ignore[union-attr]
        reads[uid] = SourceReads(str(source.format), dict(source.selects), list(source.paths), schema=LISTING)
        try:
            frozen[uid] = read_frozen(storage, path)
        except FrozenListLostError as error:  # the other sources are still checked
            log.warning("finished source %s cannot be checked for late files: %s", uid, error)
    return reads, frozen
