"""Watch for files that change after a query has read them, because a producer may still write to them.

A few young files are compared some seconds after they were read, and again after longer pauses. All files are compared
when a bounded source has ended, and when the query ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from airflow_provider_ckpt.coordinator.protocol.reports import FilesChanged
from airflow_provider_ckpt.model.file_status import ChangedFile, FileStatus
from airflow_provider_ckpt.model.ids import TaskId
from airflow_provider_ckpt.spark.query.sources.file_polls import listed, statuses_now
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.errors import UnfinishedFilesError
from airflow_provider_ckpt.spark.task.streaming.micro_batches import MicroBatches
from airflow_provider_ckpt.sparkfiles.seen_files import log_offset, planned_times
from airflow_provider_ckpt.task.read_files import key_of

NAMED = 20
"""Greatest number of files that a report names."""
_POLL = 0.1


class FileWatch:
    """The watch of one attempt. The driver's loop calls ``is_due``; the runner's own thread calls the other methods."""

    def __init__(self, context: RunContext, batches: MicroBatches, is_stopped: Callable[[], bool]) -> None:
        self._context, self._batches, self._is_stopped = context, batches, is_stopped
        self._files = batches.read_files
        self._has_earlier = batches.log.state.last_batch is not None
        """An earlier attempt has read files."""

    def is_due(self, now: float) -> bool:
        with self._batches.lock:
            return self._files.is_due(now)

    def look(self, reads: Mapping[str, SourceReads]) -> None:
        """Compare the files that are due. Raises UnfinishedFilesError."""
        with self._batches.lock:
            due = self._files.due(time.monotonic())
        for uid, paths in due.items():
            if uid in reads:
                self._compare(uid, statuses_now(self._context.spark, paths))

    def look_at_all(self, reads: Mapping[str, SourceReads], *, wait: bool) -> None:
        """Compare all files of these sources.

        Args:
            wait: compare young files no sooner than a few seconds after they were read.

        Raises UnfinishedFilesError.
        """
        files = {uid: read for uid, read in reads.items() if read.is_file}
        if wait:
            self._settle(files)
        for uid, read in files.items():
            self._compare(uid, listed(self._context.spark, read), self._planned(uid))

    def changes(self, reads: Mapping[str, SourceReads]) -> list[FilesChanged]:
        """Compare all files of these sources. Return the reports, and do not send them."""
        files = {uid: read for uid, read in reads.items() if read.is_file}
        found = {uid: self._changed(uid, listed(self._context.spark, read), {}) for uid, read in files.items()}
        task_id = self._batches.publication.task_id
        return [report_of(task_id, uid, changed) for uid, changed in found.items() if changed]

    def _settle(self, uids: Collection[str]) -> None:
        with self._batches.lock:
            until = self._files.settles_at(uids)
        while time.monotonic() < until and not self._is_stopped():
            time.sleep(_POLL)

    def _planned(self, uid: str) -> dict[str, int]:
        """Return the modification times of files that earlier attempts have read, as of the plans of their batches."""
        batches = self._batches
        last = batches.log.state.last_batch
        if not self._has_earlier or last is None:
            return {}
        folder = batches.folder
        times = planned_times(folder.storage, f"{folder.path}/sources/{uid}", log_offset(last.offsets.get(uid)))
        known = {key_of(path) for path in self._context.known_changed}
        return {path: modified for path, modified in times.items() if path not in known}

    def _changed(self, uid: str, there: Iterable[FileStatus], planned: Mapping[str, int] | None) -> list[ChangedFile]:
        with self._batches.lock:
            return self._files.changed(uid, there, planned)

    def _compare(self, uid: str, there: Iterable[FileStatus], planned: Mapping[str, int] | None = None) -> None:
        changed = self._changed(uid, there, planned)
        if not changed:
            return
        publication = self._batches.publication
        publication.post(report_of(publication.task_id, uid, changed))
        operator = self._context.operators[uid]
        short = next((one for one in changed if one.size != one.read), None)
        if operator.on_unfinished == "fail" and short is not None:
            raise UnfinishedFilesError(source=uid, count=len(changed), file=str(short))


def report_of(task_id: TaskId, uid: str, changed: Collection[ChangedFile]) -> FilesChanged:
    unread = sum(one.unread for one in changed)
    return FilesChanged(*task_id, uid, tuple(changed)[:NAMED], len(changed), unread)
