"""After a checkpoint: its portable copy, and forgetting what nothing needs any more (R3, R6, R7).

Runs in a thread of its own. Data files go before the log entries that name them. A storage that is slower than the
checkpoints is asked for the newest one only: what the others would have forgotten goes with it.
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
from airflow_provider_ckpt.jobmaster.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.restore import spark_folders
from airflow_provider_ckpt.jobmaster.sink_releases import position
from airflow_provider_ckpt.jobmaster.subtask_orphans import left_by_finished
from airflow_provider_ckpt.journal.events import CheckpointCompleted
from airflow_provider_ckpt.model.channel import readers
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.json_form import to_json
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.log_truncation import LogTruncation
from airflow_provider_ckpt.partitions.needed import data_head, deletable_folders, held_from, log_head
from airflow_provider_ckpt.partitions.records import Open
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

log = logging.getLogger(__name__)

KIND = "checkpoint"
VERSION = 1
TRUNCATE_AT = 16
"""Entries of a subtask's log that nobody needs, which are worth a truncation; twice as many of an idle one, or one that
has ended. They count, and not the checkpoints of this run: of a job whose runs are short as much goes."""
PURGE_AT = 8
"""The same of batches in a Spark folder, with some six files each."""
WORTH_A_SNAPSHOT = 64
"""Entries of the journal of one vertex: fewer are replayed as fast as a snapshot."""


def worth_a_snapshot(graph: JobGraph) -> int:
    """Entries of the journal. Of each vertex a snapshot says as much as of the first: 0.5 MB of 20, for which whoever
    writes to the journal waits for 50 ms."""
    return WORTH_A_SNAPSHOT * (3 + len(graph.vertices)) // 4


class Retention:
    """``graph``: gives the one that the job runs now. ``retained``: how many completed checkpoints keep what a restore
    of them needs. ``logs``: those of all subtasks, by subtask, to be read: a log has one writer, its task.
    ``snapshot_min_pause``: in seconds, of a job that takes no checkpoints on its way; None of any other:
    its journal is compacted behind a checkpoint, as soon as it is worth it."""

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
        self._given_back: dict[SubtaskId, int] = {}
        """Entries below that position have no data any more."""
        self._looked: dict[SubtaskId, int] = {}
        """How far it, and those who hold its log, had come when this JobMaster truncated it last."""
        self._heads: dict[SubtaskId, int] = {}
        """Where it has truncated them."""
        self._cleared: dict[SubtaskId, bool] = {}
        """Finished subtasks of which nothing is left but the log; False: and the data that somebody still reads."""
        self._purged: dict[SubtaskId, int] = {}
        """The same of its batches in Spark's folder."""
        self._removal = Removal(storage)
        self._lock = threading.Lock()
        self._news: list[CheckpointCompleted] = []
        """Completed, and not seen to yet; of those that are retained."""
        self._retained_now: list[CheckpointCompleted] = []
        self._without_copy: dict[int, CheckpointCompleted] = {}
        """Completed checkpoints whose portable copy is not written yet."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ckpt-retention")

    def completed(self, checkpoint: int) -> None:
        """Called once for each completed checkpoint."""
        with self._lock:
            is_first = not self._news
            self._news = [*self._news, self._journal.state.checkpoints[checkpoint]][-self._retained :]
            self._retained_now = self._kept()
        if is_first:
            self._thread.submit(self._see_to_news)

    def look(self, now: float) -> None:
        """Called every now and then. ``now``: seconds that never go back."""
        if self._min_pause is None or now < self._next_snapshot or self._journal.uncompacted < WORTH_A_SNAPSHOT:
            return
        self._next_snapshot = now + self._min_pause
        self._thread.submit(self._snapshot)

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    def _kept(self) -> list[CheckpointCompleted]:
        checkpoints = self._journal.state.checkpoints
        return [checkpoints[number] for number in sorted(checkpoints)[-self._retained :]]

    def _see_to_news(self) -> None:
        with self._lock:
            news, self._news, kept = self._news, [], self._retained_now
        self._after(news, kept)

    def _after(self, news: list[CheckpointCompleted], kept: list[CheckpointCompleted]) -> None:
        completed = news[-1]
        number = completed.checkpoint
        unwritten = {**self._without_copy, **{one.checkpoint: one for one in news}}
        self._without_copy = {one: unwritten[one] for one in unwritten if one >= kept[0].checkpoint}

        # nothing of the rest decides anything, and none of it waits for another: what fails is done after a later one
        acts: list[Callable[[], None]] = [
            *(partial(self._write_metadata, one) for one in list(self._without_copy.values())),
            self._removal.try_again,
            lambda: self._delete_old(min(one.checkpoint for one in kept)),
            lambda: self._compact(completed.at),
            *(partial(self._forget, subtask, kept) for subtask in completed.subtasks),
            *(partial(self._purge, subtask, kept) for subtask in completed.subtasks),
            *(partial(self._clear, subtask, kept) for subtask in completed.subtasks),
        ]
        try:
            if self._see_to(number, self._journal.check_fenced):  # what is kept is for the JobMaster that has the job
                for act in acts:
                    self._see_to(number, act)
        except OvertakenError as error:
            log.warning("housekeeping after checkpoint %d failed: %s", number, error)

    def _see_to(self, number: int, act: Callable[[], None]) -> bool:
        """False if it failed. Raises OvertakenError."""
        try:
            act()
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
        except CkptError as error:  # a journal that cannot be written any more says so to who writes next
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
        """Delete the copies of checkpoints below ``oldest``, but for as many as newer ones have no copy yet."""
        names = self._storage.list(f"{job_path(self._job_id)}/checkpoints")
        numbers = sorted(int(digits) for name in names if (digits := name.removeprefix("chk-")).isdecimal())
        old = [number for number in numbers if number < oldest]
        missing = len(self._without_copy)
        spared = self._with_copies(old)[-missing:] if old and missing else []
        for number in old:
            if number not in spared:
                self._removal.delete(checkpoint_path(self._job_id, number))

    def _with_copies(self, numbers: list[int]) -> list[int]:
        """Return the checkpoints of ``numbers`` whose copy was written. A write that failed may leave a folder."""
        files = {path for path, _ in self._storage.files(f"{job_path(self._job_id)}/checkpoints")}
        return [number for number in numbers if f"chk-{number}/_metadata" in files]

    def _forget(self, subtask: SubtaskId, kept: list[CheckpointCompleted]) -> None:
        if self._graph().vertex(subtask.vertex).persist:
            return  # who reads it when the job has FINISHED goes by the entries
        # all of them: a consumer that was given up and has come back begins at 0 in the newer ones
        consumers = [position for one in kept for position in self._consumer_positions(subtask, one)]
        for head in data_head(consumers) or self._gone_consumers_head(subtask, kept[0]):
            if head > self._given_back.get(subtask, 0):
                self._give_back(subtask, head)
        self._truncate(subtask, position(kept[0], subtask), consumers)

    def _truncate(self, subtask: SubtaskId, retained: int, consumers: list[int]) -> None:
        """``retained``: its position in the oldest retained checkpoint; those in the others are not below."""
        unreleased = self._unreleased_from(subtask)
        start = held_from(unreleased, consumers)
        come = retained + (retained if start is None else min(retained, start))
        if come - self._looked.get(subtask, 0) < 2 * TRUNCATE_AT:
            return
        records = [] if start is None else self._logs[subtask].records(start)
        head = log_head(records, retained=[retained], unreleased_from=unreleased, consumers=consumers)
        self._looked[subtask] = come
        if head <= self._heads.get(subtask, 0):
            return  # what holds it has not moved, and a truncation reads the whole log
        path = subtask_log_path(self._job_id, subtask.vertex, subtask.number)
        kept = LogTruncation(self._storage, path, self._journal.check_fenced).truncate(head, unreleased)
        self._logs[subtask].forget(head, kept)
        self._heads[subtask] = head

    def _purge(self, subtask: SubtaskId, kept: list[CheckpointCompleted]) -> None:
        """The lowest batch of the retained checkpoints counts, which need not be that of the oldest: an operator that
        was given up and has come back begins at 0. Of a source with splits no query of Spark's runs."""
        vertex = self._graph().vertex(subtask.vertex)
        snapshots = [one.subtasks[subtask] for one in kept if subtask in one.subtasks]
        if vertex.persist or vertex.splits or subtask in self._cleared:
            return
        lowest = min(snapshots, key=lambda one: -1 if one.batch_id is None else one.batch_id)
        batch = lowest.batch_id
        if batch is None or batch - self._purged.get(subtask, 0) < PURGE_AT:
            return
        folders, _ = spark_folders(self._storage, self._job_id, subtask)
        attempt = folders.previous(self._logs[subtask].records())
        if attempt is not None:
            self._journal.check_fenced()
            FolderPurge(folders.folder(attempt)).run(batch, lowest.offsets)
            self._purged[subtask] = batch

    def _clear(self, subtask: SubtaskId, kept: list[CheckpointCompleted]) -> None:
        """Delete, once, what a finished subtask no longer needs; its data too when all readers have finished (R7).

        Each name has its attempt, and the names are listed before the look at the fence. So nothing of a successor
        goes. The results of a job in batch mode stay until the job has FINISHED.
        """
        if self._is_batch or not _is_finished(subtask, kept):
            return
        graph = self._graph()
        is_read = all(_is_finished(consumer, kept) for consumer, _ in readers(graph, subtask))
        is_read = is_read and not graph.vertex(subtask.vertex).persist
        if subtask in self._cleared and self._cleared[subtask] >= is_read:
            return
        home = subtask_path(self._job_id, subtask.vertex, subtask.number)
        opened = [one.attempt for _, one in self._logs[subtask].records() if isinstance(one, Open)]
        files, epoch = self._storage.files(home), self._journal.state.epoch
        found = list(left_by_finished(home, files, opened, epoch, is_read=is_read))
        self._journal.check_fenced()
        for one in found:
            if one.is_folder:
                self._removal.delete(one.path)
            else:
                with best_effort(one.path):
                    self._storage.delete(one.path)
        self._cleared[subtask] = is_read

    def _give_back(self, subtask: SubtaskId, head: int) -> None:
        """The data below ``head``, once: an entry may be needed for longer than its data."""
        self._journal.check_fenced()
        partition = partition_path(self._job_id, subtask.vertex, subtask.number)
        start = self._given_back.get(subtask, 0)
        for folder in deletable_folders(self._logs[subtask].records(start), start, head):
            self._removal.delete(f"{partition}/{folder}")
        self._given_back[subtask] = max(start, head)

    def _consumer_positions(self, subtask: SubtaskId, oldest: CheckpointCompleted) -> list[int]:
        """A finished consumer has read all that there is. Its snapshot has the position of its last barrier."""
        positions = []
        for consumer, channel in readers(self._graph(), subtask):
            snapshot = oldest.subtasks.get(consumer)
            if snapshot is not None and snapshot.finished_on_restore and not self._is_batch:
                positions.append(self._logs[subtask].position)
            else:
                positions.append(0 if snapshot is None else snapshot.inputs.get(channel.key, 0))
        return positions

    def _gone_consumers_head(self, subtask: SubtaskId, oldest: CheckpointCompleted) -> tuple[int, ...]:
        """All that was published for consumers that the job has given up, if nobody else reads the partition."""
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


def _is_finished(subtask: SubtaskId, kept: list[CheckpointCompleted]) -> bool:
    """Return whether no retained checkpoint starts the subtask again."""
    snapshots = [one.subtasks.get(subtask) for one in kept]
    return all(one is not None and one.finished_on_restore for one in snapshots)
