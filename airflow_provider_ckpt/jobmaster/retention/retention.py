"""Housekeeping after a checkpoint: write its portable copy, and delete data that is no longer needed (R3, R6, R7).

Housekeeping runs in its own thread. Data files are deleted before the log entries that name them. If the storage is
slower than the checkpoints, data is deleted only after the newest checkpoint, which includes skipped ones.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from airflow_provider_ckpt.errors import CkptError, OvertakenError
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.recovery.restore import spark_folders
from airflow_provider_ckpt.jobmaster.release.sink_releases import position
from airflow_provider_ckpt.jobmaster.retention.orphaned_output import left_by_finished
from airflow_provider_ckpt.journal.events import CheckpointCompleted
from airflow_provider_ckpt.model.channel import readers
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.json_form import to_json
from airflow_provider_ckpt.sparkfiles.folder_purge import FolderPurge
from airflow_provider_ckpt.storage.envelope import encode_document
from airflow_provider_ckpt.storage.layout import (
    checkpoint_path,
    job_path,
    metadata_path,
    partition_path,
    subtask_log_path,
    subtask_path,
)
from airflow_provider_ckpt.storage.removal import Removal, best_effort
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import LogReader
from airflow_provider_ckpt.subtasklog.log_truncation import LogTruncation
from airflow_provider_ckpt.subtasklog.needed import data_head, deletable_folders, held_from, log_head
from airflow_provider_ckpt.subtasklog.records import Open

log = logging.getLogger(__name__)

KIND = "checkpoint"
VERSION = 1
TRUNCATE_AT = 16
"""Minimum number of unneeded log entries for a truncation. For an idle or ended log the minimum is twice as high."""
PURGE_AT = 8
"""Minimum number of unneeded batches for a purge of a Spark folder. Each batch has about six files."""
WORTH_A_SNAPSHOT = 64
"""Minimum number of journal entries for a snapshot, in a job with one vertex. Fewer entries are read as fast as a
snapshot."""


class Retention:
    """Housekeeping of one run.

    Args:
        graph: Function that returns the job's current graph.
        logs: Readers of all subtasks' logs. Only the subtask's task writes to its log.
        retained: Number of completed checkpoints for which the data of a restore is kept.
        final_only: Sinks that release with the final checkpoint only.
        snapshot_min_pause: Minimum seconds between journal snapshots in batch mode, which takes no checkpoints before
            the end. None for streaming mode: there a checkpoint compacts the journal.
    """

    def __init__(
        self,
        storage: Storage,
        job_id: str,
        graph: Callable[[], JobGraph],
        journal: OwnedJournal,
        logs: Mapping[SubtaskId, LogReader],
        *,
        retained: int,
        final_only: frozenset[str],
        snapshot_min_pause: float | None = None,
    ) -> None:
        self._min_pause, self._next_snapshot = snapshot_min_pause, -math.inf
        self._is_batch = snapshot_min_pause is not None
        self._storage, self._job_id, self._graph = storage, job_id, graph
        self._journal, self._logs, self._retained = journal, logs, retained
        self._final_only = final_only
        self._deleted_below: dict[SubtaskId, int] = {}
        """Subtask → log position below which all data is deleted."""
        self._last_progress: dict[SubtaskId, int] = {}
        """Subtask → its progress at the last check: its retained position plus the first position that is needed."""
        self._heads: dict[SubtaskId, int] = {}
        """Subtask → position to which this JobMaster has truncated the subtask's log."""
        self._cleared: dict[SubtaskId, bool] = {}
        """Finished subtask whose unneeded files are deleted → True if its partition data is deleted, too."""
        self._purged: dict[SubtaskId, int] = {}
        """Subtask → batch before which its Spark folder is purged."""
        self._removal = Removal(storage)
        self._lock = threading.Lock()
        self._waiting: list[CheckpointCompleted] = []
        """Completed checkpoints that wait to be handled, at most ``retained``."""
        self._retained_now: list[CheckpointCompleted] = []
        self._without_copy: dict[int, CheckpointCompleted] = {}
        """Completed checkpoints that still lack a portable copy."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ckpt-retention")

    def completed(self, checkpoint: int) -> None:
        """Start the housekeeping of a completed checkpoint."""
        with self._lock:
            is_first = not self._waiting
            self._waiting = [*self._waiting, self._journal.state.checkpoints[checkpoint]][-self._retained :]
            self._retained_now = self._retained_checkpoints()
        if is_first:
            self._thread.submit(self._handle_waiting)

    def snapshot_if_due(self, now: float) -> None:
        """Write a snapshot of the journal if one is due. ``now`` is in seconds of a clock that never goes back."""
        if self._min_pause is None or now < self._next_snapshot or self._journal.uncompacted < WORTH_A_SNAPSHOT:
            return
        self._next_snapshot = now + self._min_pause
        self._thread.submit(self._snapshot)

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    def _retained_checkpoints(self) -> list[CheckpointCompleted]:
        checkpoints = self._journal.state.checkpoints
        return [checkpoints[number] for number in sorted(checkpoints)[-self._retained :]]

    def _handle_waiting(self) -> None:
        with self._lock:
            completed, self._waiting, retained = self._waiting, [], self._retained_now
        self._handle(completed, retained)

    def _handle(self, new: list[CheckpointCompleted], retained: list[CheckpointCompleted]) -> None:
        completed = new[-1]
        number = completed.checkpoint
        unwritten = {**self._without_copy, **{checkpoint.checkpoint: checkpoint for checkpoint in new}}
        self._without_copy = {number: unwritten[number] for number in unwritten if number >= retained[0].checkpoint}

        # no step decides anything or depends on another one, so a failed step is repeated after a later checkpoint
        steps: list[Callable[[], None]] = [
            *(partial(self._write_metadata, checkpoint) for checkpoint in list(self._without_copy.values())),
            self._removal.retry,
            lambda: self._delete_old(min(checkpoint.checkpoint for checkpoint in retained)),
            lambda: self._compact(completed.at),
            *(partial(self._discard, subtask, retained) for subtask in completed.subtasks),
            *(partial(self._purge, subtask, retained) for subtask in completed.subtasks),
            *(partial(self._clear_finished, subtask, retained) for subtask in completed.subtasks),
        ]
        try:
            if self._run_step(number, self._journal.check_fenced):  # only the JobMaster that has the job may delete
                for step in steps:
                    self._run_step(number, step)
        except OvertakenError as error:
            log.warning("housekeeping after checkpoint %d failed: %s", number, error)

    def _run_step(self, number: int, step: Callable[[], None]) -> bool:
        """Run ``step``. Log its error and return False if it failed. Raises only OvertakenError."""
        try:
            step()
        except OvertakenError:
            raise
        except CkptError as error:
            log.warning("housekeeping after checkpoint %d failed: %s", number, error)
        except Exception:
            log.exception("housekeeping after checkpoint %d failed", number)
        else:
            return True
        return False

    def _compact(self, at: float) -> None:
        if self._journal.uncompacted >= worth_a_snapshot(self._graph()):
            self._journal.compact(at)

    def _snapshot(self) -> None:
        try:
            self._journal.compact(time.time())
        except CkptError as error:  # a journal that can no longer be written fails the next write, too
            log.warning("the journal was not compacted: %s", error)
        except Exception:
            log.exception("the journal was not compacted")

    def _write_metadata(self, completed: CheckpointCompleted) -> None:
        document = encode_document(
            KIND,
            VERSION,
            job_id=self._job_id,
            checkpoint=completed.checkpoint,
            kind=completed.kind,
            triggered_at=completed.triggered_at,
            completed_at=completed.at,
            operators=dict(completed.operators),
            subtasks=to_json(completed.subtasks),
        )
        self._storage.replace(metadata_path(self._job_id, completed.checkpoint), document)
        del self._without_copy[completed.checkpoint]

    def _delete_old(self, oldest: int) -> None:
        """Delete the copies of checkpoints below ``oldest``, but keep one for each newer checkpoint without a copy."""
        names = self._storage.list(f"{job_path(self._job_id)}/checkpoints")
        numbers = sorted(int(digits) for name in names if (digits := name.removeprefix("chk-")).isdecimal())
        old = [number for number in numbers if number < oldest]
        missing = len(self._without_copy)
        retained = self._with_copies(old)[-missing:] if old and missing else []
        for number in old:
            if number not in retained:
                self._removal.delete(checkpoint_path(self._job_id, number))

    def _with_copies(self, numbers: list[int]) -> list[int]:
        """Return those of ``numbers`` whose checkpoint has a copy. A failed write may leave a folder without a copy."""
        files = {path for path, _ in self._storage.files(f"{job_path(self._job_id)}/checkpoints")}
        return [number for number in numbers if f"chk-{number}/_metadata" in files]

    def _discard(self, subtask: SubtaskId, retained: list[CheckpointCompleted]) -> None:
        if self._graph().vertex(subtask.vertex).persist:
            return  # readers of the persisted result need the entries after the job has FINISHED
        # all retained checkpoints, because a dropped consumer that comes back begins at 0 in the newer ones
        consumers = [position for checkpoint in retained for position in self._consumer_positions(subtask, checkpoint)]
        for head in data_head(consumers) or self._dropped_consumers_head(subtask, retained[0]):
            if head > self._deleted_below.get(subtask, 0):
                self._delete_data(subtask, head)
        self._truncate(subtask, position(retained[0], subtask), consumers)

    def _truncate(self, subtask: SubtaskId, retained: int, consumers: list[int]) -> None:
        """Truncate the subtask's log if enough entries are no longer needed.

        Args:
            retained: Position of the subtask in the oldest retained checkpoint, which is the lowest.
            consumers: Positions in this log of the subtask's consumers, in the retained checkpoints.
        """
        unreleased = self._unreleased_from(subtask)
        start = held_from(unreleased, consumers)
        progress = retained + (retained if start is None else min(retained, start))
        if progress - self._last_progress.get(subtask, 0) < 2 * TRUNCATE_AT:
            return
        records = [] if start is None else self._logs[subtask].records(start)
        head = log_head(records, retained=[retained], unreleased_from=unreleased, consumers=consumers)
        self._last_progress[subtask] = progress
        if head <= self._heads.get(subtask, 0):
            return  # nothing more can be truncated, and a truncation reads the whole log
        path = subtask_log_path(self._job_id, subtask.vertex, subtask.number)
        kept = LogTruncation(self._storage, path, self._journal.check_fenced).truncate(head, unreleased)
        self._logs[subtask].forget(head, kept)
        self._heads[subtask] = head

    def _purge(self, subtask: SubtaskId, retained: list[CheckpointCompleted]) -> None:
        """Purge the subtask's Spark folder of batches before the lowest batch of the retained checkpoints.

        The oldest checkpoint may not have the lowest batch, because a dropped operator that comes back begins at 0.
        Sources with splits have no Spark folder.
        """
        vertex = self._graph().vertex(subtask.vertex)
        snapshots = [checkpoint.subtasks[subtask] for checkpoint in retained if subtask in checkpoint.subtasks]
        if vertex.persist or vertex.splits or subtask in self._cleared:
            return
        lowest = min(snapshots, key=lambda snapshot: -1 if snapshot.batch_id is None else snapshot.batch_id)
        batch = lowest.batch_id
        if batch is None or batch - self._purged.get(subtask, 0) < PURGE_AT:
            return
        folders, _ = spark_folders(self._storage, self._job_id, subtask)
        attempt = folders.previous(self._logs[subtask].records())
        if attempt is not None:
            self._journal.check_fenced()
            FolderPurge(folders.folder(attempt)).run(batch, lowest.offsets)
            self._purged[subtask] = batch

    def _clear_finished(self, subtask: SubtaskId, retained: list[CheckpointCompleted]) -> None:
        """Delete files that a finished subtask no longer needs; partition data only if all readers have finished (R7).

        The files are listed before the fence check, and each name contains an attempt. So no file of a later driver is
        deleted. The results of a job in batch mode stay until the job has FINISHED.
        """
        if self._is_batch or not _is_finished(subtask, retained):
            return
        graph = self._graph()
        is_read = all(_is_finished(consumer, retained) for consumer, _ in readers(graph, subtask))
        is_read = is_read and not graph.vertex(subtask.vertex).persist
        if subtask in self._cleared and self._cleared[subtask] >= is_read:
            return
        home = subtask_path(self._job_id, subtask.vertex, subtask.number)
        opened = [record.attempt for _, record in self._logs[subtask].records() if isinstance(record, Open)]
        files, epoch = self._storage.files(home), self._journal.state.epoch
        garbage = list(left_by_finished(home, files, opened, epoch, is_read=is_read))
        self._journal.check_fenced()
        for piece in garbage:
            if piece.is_folder:
                self._removal.delete(piece.path)
            else:
                with best_effort(piece.path):
                    self._storage.delete(piece.path)
        self._cleared[subtask] = is_read

    def _delete_data(self, subtask: SubtaskId, head: int) -> None:
        """Delete the data files of entries below ``head`` that still exist. The entries themselves may stay longer."""
        self._journal.check_fenced()
        partition = partition_path(self._job_id, subtask.vertex, subtask.number)
        start = self._deleted_below.get(subtask, 0)
        for folder in deletable_folders(self._logs[subtask].records(start), start, head):
            self._removal.delete(f"{partition}/{folder}")
        self._deleted_below[subtask] = max(start, head)

    def _consumer_positions(self, subtask: SubtaskId, checkpoint: CheckpointCompleted) -> list[int]:
        """Return up to which position each consumer had read the log at the checkpoint. Finished ones have read all."""
        positions = []
        for consumer, channel in readers(self._graph(), subtask):
            snapshot = checkpoint.subtasks.get(consumer)
            if snapshot is not None and snapshot.finished_on_restore and not self._is_batch:
                positions.append(self._logs[subtask].position)
            else:
                positions.append(0 if snapshot is None else snapshot.inputs.get(channel.key, 0))
        return positions

    def _dropped_consumers_head(self, subtask: SubtaskId, oldest: CheckpointCompleted) -> tuple[int, ...]:
        """Return (position up to which only dropped consumers needed the data,); () if the vertex never dropped any."""
        return (position(oldest, subtask),) if self._graph().vertex(subtask.vertex).layout else ()

    def _unreleased_from(self, subtask: SubtaskId) -> int | None:
        vertex = self._graph().vertex(subtask.vertex)
        if not vertex.sinks:
            return None
        state = self._journal.state
        released = state.checkpoints.get(state.last_released)
        if released is None or self._final_only & set(vertex.sinks):
            return 0
        return position(released, subtask)


def worth_a_snapshot(graph: JobGraph) -> int:
    """Return the minimum number of journal entries for a snapshot: more for more vertices (20 vertices: 0.5 MB)."""
    return WORTH_A_SNAPSHOT * (3 + len(graph.vertices)) // 4


def _is_finished(subtask: SubtaskId, retained: list[CheckpointCompleted]) -> bool:
    snapshots = [checkpoint.subtasks.get(subtask) for checkpoint in retained]
    return all(snapshot is not None and snapshot.finished_on_restore for snapshot in snapshots)
