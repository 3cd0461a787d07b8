"""Freezing of the ends of bounded sources: which files, offsets or splits all attempts read."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.sql import SparkSession

from airflow_provider_ckpt.jobmaster.recovery.frozen_splits import freeze_splits
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.journal.events import SourceFrozen
from airflow_provider_ckpt.model.file_status import FileStatus, awaited
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.spark.query.kafka.freezing import fetch_offsets
from airflow_provider_ckpt.spark.query.sources.empty_sources import refuse_empty, refuse_without_rows
from airflow_provider_ckpt.spark.query.sources.file_polls import await_settled
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd, freeze_offsets, read_end
from airflow_provider_ckpt.spark.query.sources.frozen_files import (
    freeze,
    list_files,
    list_statuses,
    refuse_beside_partitions,
    refuse_colons,
    refuse_patterns,
    unescaped_path,
)
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.sparkfiles.seen_files import shown_path
from airflow_provider_ckpt.storage.layout import frozen_path
from airflow_provider_ckpt.storage.storage import Storage


def freeze_sources(
    spark: SparkSession,
    storage: Storage,
    job_id: str,
    journal: OwnedJournal,
    reads: Mapping[str, SourceReads],
    locations: Mapping[str, str],
    *,
    streaming: bool,
    allow_empty: Collection[str],
    waits: Collection[str],
    warn: Callable[[str], None],
) -> dict[str, FrozenEnd]:
    """Return source -> frozen end, for the bounded sources in ``reads``. Freeze the ends that no attempt has frozen.

    Sources that read neither files nor Kafka have no frozen end, and are not in the result.

    Args:
        reads: bounded source -> format, paths and options.
        locations: source -> place of its definition.
        streaming: True for a job in streaming mode. Then file names that Spark takes for patterns are refused.
        allow_empty: sources that may have nothing to read.
        waits: sources whose files must not have changed for some time (``unfinished_files="wait"``).
        warn: called with a warning text when the wait for unchanged files is long.

    Raises NothingToReadError, UnreadableFileError, and what :func:`fetch_offsets` raises. A source that fails is not
    frozen.
    """
    frozen: dict[str, FrozenEnd] = {}
    state = journal.state
    for uid, read in reads.items():
        recorded = state.frozen.get(uid)
        path = frozen_path(job_id, uid, state.valid_from(uid))
        inside = path[len(job_id) + 1 :]
        if recorded is not None:
            if recorded.path is not None:
                frozen[uid] = read_end(storage, f"{job_id}/{recorded.path}")
            continue
        if read.is_kafka:
            current = fetch_offsets(spark, uid, locations[uid], read.options)
            if not current.count and uid not in allow_empty:
                refuse_without_rows(uid, locations[uid], read)
            offsets = freeze_offsets(storage, path, current)
            frozen[uid] = offsets
            journal.write(SourceFrozen(uid, inside, offsets.count, time.time()))
            continue
        if not read.is_file:
            journal.write(SourceFrozen(uid, None, 0, time.time()))
            continue
        if uid in waits:
            report = functools.partial(_report_awaited, warn, uid)
            await_settled(functools.partial(list_statuses, spark, read), report=report)
        files = list_files(spark, read)
        if uid not in allow_empty:
            refuse_empty(spark, uid, locations[uid], read, files)
        if streaming:
            refuse_patterns(uid, locations[uid], map(unescaped_path, files))
        refuse_colons(uid, locations[uid], files)
        refuse_beside_partitions(spark, uid, locations[uid], read)
        listed = freeze(storage, path, uid, files)
        frozen[uid] = listed
        journal.write(SourceFrozen(uid, inside, len(listed.files), time.time()))
    return frozen


def _report_awaited(warn: Callable[[str], None], uid: str, file: FileStatus, seconds: float) -> None:
    warn(awaited(uid, shown_path(file.path), seconds))


def freeze_split_lists(
    storage: Storage, job_id: str, journal: OwnedJournal, lists: Mapping[str, Sequence[Split]]
) -> dict[str, tuple[Split, ...]]:
    """Return source -> its frozen splits. Freeze each list that no attempt has frozen. ``lists``: source -> splits."""
    frozen: dict[str, tuple[Split, ...]] = {}
    state = journal.state
    for uid, splits in lists.items():
        if uid in state.frozen:
            frozen[uid] = tuple(splits)  # the plan already uses the frozen list
            continue
        path = frozen_path(job_id, uid, state.valid_from(uid))
        frozen[uid] = freeze_splits(storage, path, uid, splits)
        journal.write(SourceFrozen(uid, path[len(job_id) + 1 :], len(frozen[uid]), time.time()))
    return frozen
