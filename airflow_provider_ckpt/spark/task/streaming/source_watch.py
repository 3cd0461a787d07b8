"""Checks of the sources of a query: frozen input that has vanished, files that change, and unread input.

A producer may still write to a file that the query has read. A few young files are compared some seconds after they
were read, and again after longer pauses. All files are compared when a bounded source or the query has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from pyspark.sql import SparkSession

from airflow_provider_ckpt.coordinator.protocol.reports import FilesChanged
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.model.file_status import ChangedFile, FileStatus
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.ids import TaskId
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.spark.plan.builder import BuiltQuery
from airflow_provider_ckpt.spark.query.kafka.errors import KafkaRefusedError, KafkaUnreachableError
from airflow_provider_ckpt.spark.query.kafka.freezing import fetch_offsets, recreated_topic, why_endless
from airflow_provider_ckpt.spark.query.sources.file_polls import listed, statuses_now
from airflow_provider_ckpt.spark.query.sources.frozen_files import list_files, unescaped_path
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.errors import KafkaRowsGoneError, UnfitInputError
from airflow_provider_ckpt.spark.task.streaming.micro_batches import MicroBatches
from airflow_provider_ckpt.sparkfiles.errors import DamagedOffsetError
from airflow_provider_ckpt.sparkfiles.seen_files import log_offset, planned_times
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.sparkfiles.spark_json import offset_object
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.task.bounded_offsets import BoundedOffsets
from airflow_provider_ckpt.task.read_files import key_of
from airflow_provider_ckpt.task.vertex_inputs import BoundedInput, Inputs

Stuck = tuple[BoundedInput | BoundedOffsets, SourceReads]


class SourceWatch:
    """A check for sources that can never end: a frozen file has vanished, or no row will reach a frozen offset."""

    def __init__(self, context: RunContext, vertex: JobVertex, inputs: Inputs) -> None:
        self._context, self._vertex, self._inputs = context, vertex, inputs

    def stuck(self, built: BuiltQuery, now: float) -> Iterator[Stuck]:
        """Yield each bounded source without progress whose check by :meth:`refuse` is due, with what the source reads.

        This method checks only facts in memory. ``now`` is a time of ``time.monotonic``.
        """
        for uid, source in self._inputs.bounded.items():
            if uid in built.reads and source.is_stuck(now):
                yield source, built.reads[uid]

    def refuse(self, source: BoundedInput | BoundedOffsets, reads: SourceReads) -> None:
        """Refuse a source that can never end. This is slow, because it lists files or queries the broker.

        Raises SourceFilesGoneError, KafkaRowsGoneError.
        """
        if isinstance(source, BoundedInput):
            source.refuse_missing(unescaped_path(file) for file in list_files(self._context.spark, reads))
            return
        location = self._context.operators[source.uid].location
        ids = self._context.topics.get(source.uid, {})
        with suppress(KafkaUnreachableError, KafkaRefusedError):  # the query meets this error, too, and may recover
            reason = why_endless(self._context.spark, source.uid, location, reads.options, ids, source.remaining)
            if source.has_lost_rows(reason):
                raise KafkaRowsGoneError(vertex=self._vertex.uid, reason=reason)

    def refuse_recreated_topics(self, built: BuiltQuery) -> None:
        """Refuse topics that were recreated since the job was planned.

        Otherwise a restarted attempt would read the new topic from the offset of the old one.

        Raises KafkaRowsGoneError.
        """
        for uid, read in built.reads.items():
            reason = recreated_topic(read.topics, self._context.topics.get(uid, {}))
            if reason is not None:
                raise KafkaRowsGoneError(vertex=self._vertex.uid, reason=reason)


NAMED = 20
"""Maximum number of files that a report names."""
_POLL = 0.1


class FileWatch:
    """The comparison of files with their status when they were read, for one attempt.

    The driver's loop calls ``is_due``. The runner's own thread calls the other methods.
    """

    def __init__(self, context: RunContext, batches: MicroBatches, is_stopped: Callable[[], bool]) -> None:
        self._context, self._batches, self._is_stopped = context, batches, is_stopped
        self._files = batches.read_files
        self._has_earlier = batches.log.state.last_batch is not None
        """True if an earlier attempt has read files."""

    def is_due(self, now: float) -> bool:
        with self._batches.lock:
            return self._files.is_due(now)

    def compare_due(self, reads: Mapping[str, SourceReads]) -> None:
        """Compare the files that are due with their status when they were read. Raises UnfitInputError."""
        with self._batches.lock:
            due = self._files.due(time.monotonic())
        for uid, paths in due.items():
            if uid in reads:
                self._compare(uid, statuses_now(self._context.spark, paths))

    def compare_all(self, reads: Mapping[str, SourceReads], *, wait: bool) -> None:
        """Compare all files of the sources in ``reads``. Raises UnfitInputError.

        ``wait``: True to compare young files only some seconds after they were read.
        """
        files = {uid: read for uid, read in reads.items() if read.is_file}
        if wait:
            self._settle(files)
        for uid, read in files.items():
            self._compare(uid, listed(self._context.spark, read), self._planned(uid))

    def changes(self, reads: Mapping[str, SourceReads]) -> list[FilesChanged]:
        """Return a report for each source in ``reads`` whose files have changed. The reports are not sent."""
        files = {uid: read for uid, read in reads.items() if read.is_file}
        changed = {uid: self._changed(uid, listed(self._context.spark, read), {}) for uid, read in files.items()}
        task_id = self._batches.publication.task_id
        return [report_of(task_id, uid, files) for uid, files in changed.items() if files]

    def _settle(self, uids: Collection[str]) -> None:
        with self._batches.lock:
            until = self._files.settles_at(uids)
        while time.monotonic() < until and not self._is_stopped():
            time.sleep(_POLL)

    def _planned(self, uid: str) -> dict[str, int]:
        """Return normal path → modification time, for the files that earlier attempts have planned to read."""
        batches = self._batches
        last_batch = batches.log.state.last_batch
        if not self._has_earlier or last_batch is None:
            return {}
        folder = batches.folder
        times = planned_times(folder.storage, f"{folder.path}/sources/{uid}", log_offset(last_batch.offsets.get(uid)))
        known = {key_of(path) for path in self._context.known_changed}
        return {path: modified for path, modified in times.items() if path not in known}

    def _changed(self, uid: str, files: Iterable[FileStatus], planned: Mapping[str, int] | None) -> list[ChangedFile]:
        with self._batches.lock:
            return self._files.changed(uid, files, planned)

    def _compare(self, uid: str, files: Iterable[FileStatus], planned: Mapping[str, int] | None = None) -> None:
        changed = self._changed(uid, files, planned)
        if not changed:
            return
        publication = self._batches.publication
        publication.post(report_of(publication.task_id, uid, changed))
        operator = self._context.operators[uid]
        short = next((file for file in changed if file.size != file.read), None)
        if operator.on_unfinished == "fail" and short is not None:
            raise UnfitInputError(
                "source {source!r}: {file}. So it was still being written, or was replaced. Files of the source that "
                "changed after they were read: {count}. Have the producer write under a hidden name (.name or _name), "
                "and rename the file when it is complete. To resume without the missing rows, run with "
                "--resume-failed; to include them, run the job under another job id. unfinished_files='warn' only "
                "reports such files",
                source=uid,
                count=len(changed),
                file=str(short),
            )


def report_of(task_id: TaskId, uid: str, changed: Collection[ChangedFile]) -> FilesChanged:
    unread = sum(file.unread for file in changed)
    return FilesChanged(*task_id, uid, tuple(changed)[:NAMED], len(changed), unread)


def unread_input(
    spark: SparkSession, folder: SparkFolder, uid: str, reads: SourceReads, offset: str | None
) -> str | None:
    """Return a text about a source's input after ``offset``, its last published offset; None without such input.

    Return None, too, for a source that reads neither files nor Kafka, and if the brokers do not answer.
    """
    if reads.is_file:
        return _unread_files(spark, folder, uid, reads, offset)
    return _unread_rows(spark, uid, reads, offset) if reads.is_kafka else None


def _unread_files(
    spark: SparkSession, folder: SparkFolder, uid: str, reads: SourceReads, offset: str | None
) -> str | None:
    read = planned_times(folder.storage, f"{folder.path}/sources/{uid}", log_offset(offset))
    unread = [file for file in listed(spark, reads) if key_of(file.path) not in read]
    size = counted(sum(file.size for file in unread), "byte")
    return f"{counted(len(unread), 'file')} ({size}) unread" if unread else None


def _unread_rows(spark: SparkSession, uid: str, reads: SourceReads, offset: str | None) -> str | None:
    try:
        partitions = fetch_offsets(spark, uid, uid, reads.options).partitions
        read = offset_object(offset) or {}
        with refused_as(lambda why: DamagedOffsetError(offset=uid, problem=why)):
            ends = {part: int(read.get(part.topic, {}).get(str(part.partition), part.end)) for part in partitions}
    except CkptError:  # the description is for information only
        return None
    unread = {part: part.end - end for part, end in ends.items()}
    count = sum(rows for rows in unread.values() if rows > 0)
    return f"{counted(count, 'row')} unread" if count else None
