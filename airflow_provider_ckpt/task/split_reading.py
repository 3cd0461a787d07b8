"""The steps of a task that reads splits, one after the other or several small ones together, without threads or clock.

The coordinator assigns the splits. One entry of the subtask's log publishes and completes one or more splits (R14). A
subtask measures its reads, and reads as many splits together as take a few seconds. A Spark job has a fixed cost of a
second and more on a cluster or an object store. The time of one split therefore does not show whether the split is
small. So two splits are tried together. If they took little longer than one split, more are tried.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator

from airflow_provider_ckpt.coordinator.protocol.reports import SplitsCompleted, SplitsReturned
from airflow_provider_ckpt.coordinator.state.enumerator import AHEAD
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.subtasklog.log_reader import LogReader
from airflow_provider_ckpt.subtasklog.records import Batch, Open
from airflow_provider_ckpt.task.bounded_reading import BoundedReading
from airflow_provider_ckpt.task.phase import TaskPhase
from airflow_provider_ckpt.task.publication import Publication


class AssignedSplits:
    """The queue of assigned splits that a subtask has not read. A repeated assignment has no effect."""

    def __init__(self) -> None:
        self._queue: deque[str] = deque()
        self._known: set[str] = set()
        self._is_last = False

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        for split in splits:
            if split not in self._known:
                self._known.add(split)
                self._queue.append(split)
        self._is_last = self._is_last or is_last

    def next(self, most: int = 1) -> tuple[str, ...]:
        """Return the next splits, at most ``most``. They remain in the queue until :meth:`done`."""
        return tuple(itertools.islice(self._queue, most))

    def done(self, splits: Iterable[str]) -> None:
        """Remove ``splits`` from the queue. Their entry is in the log."""
        for split in splits:
            if self._queue and self._queue[0] == split:
                self._queue.popleft()

    def keep_first(self, keep: int) -> tuple[str, ...]:
        """Remove all splits after the first ``keep`` and return them. They may be assigned again."""
        surplus = tuple(itertools.islice(self._queue, keep, None))
        for split in surplus:
            self._queue.pop()
            self._known.discard(split)
        return surplus

    @property
    def is_exhausted(self) -> bool:
        """True if the queue is empty and the coordinator will assign no more splits."""
        return self._is_last and not self._queue


def published_in(log: LogReader, epoch: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield (splits, position) for each log entry with splits that attempts of ``epoch`` have published.

    Entries of earlier epochs are omitted, because the JobMaster knew them when its epoch began.
    """
    is_ours = False
    for position, record in log.records():
        if isinstance(record, Open):
            is_ours = record.attempt.epoch == epoch
        elif is_ours and isinstance(record, Batch) and record.splits:
            yield record.splits, position


class SplitReading(BoundedReading):
    """A task that reads splits of source ``uid``."""

    def __init__(self, uid: str, publication: Publication) -> None:
        super().__init__([uid], publication)
        self._assigned = AssignedSplits()

    def deploy(self, plan: VertexPlan) -> bool:
        """Start with ``plan``. First report the splits that earlier attempts of this epoch have published."""
        publication = self.publication
        with publication.lock:
            for splits, position in published_in(publication.log, publication.task_id.epoch):
                publication.post(SplitsCompleted(*publication.task_id, splits, position))
            return super().deploy(plan)

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        with self.publication.lock:
            self._assigned.assign(splits, is_last=is_last)

    def next(self, most: int = 1) -> tuple[str, ...]:
        """Return the splits to read now, at most ``most``; none before :meth:`begin` or if the queue is empty."""
        with self.publication.lock:
            return self._assigned.next(most) if self.machine.phase is TaskPhase.RUNNING else ()

    @property
    def next_batch(self) -> int:
        """The number of the batch for the next splits."""
        return self.publication.last_batch() + 1

    def complete(self, batch: Batch, *, together: int = 1) -> None:
        """Publish ``batch``, which contains all rows of the splits that it completes, and report these splits.

        The report precedes the acknowledgement of any later barrier. ``together`` is the number of splits that the task
        reads together next.
        """
        with self.publication.lock:
            position = self.publication.publish(batch)
            self._assigned.done(batch.splits)
            self.publication.post(SplitsCompleted(*self.publication.task_id, batch.splits, position, together))

    def return_surplus(self, together: int) -> None:
        """Return assigned splits beyond ``AHEAD * together`` to the coordinator, for other subtasks.

        ``together`` is the new, lower number of splits that the task reads together.
        """
        with self.publication.lock:
            surplus = self._assigned.keep_first(AHEAD * together)
            self.publication.post(SplitsReturned(*self.publication.task_id, surplus, together))

    def end_if_exhausted(self) -> None:
        """Call :meth:`end` if the queue is empty and the coordinator will assign no more splits."""
        with self.publication.lock:
            if self._assigned.is_exhausted:
                self.end()


SMALL = 3.0
"""If a single split takes this many seconds on average, splits are read one by one."""
SHORT = 3.0
"""Seconds that a joint read of splits should take. The target is 1.5 times the time of a single split, if that is
more."""
_GAIN_FACTOR = 1.5
_TOO_LONG_FACTOR = 2
_GROWTH_FACTOR = 4
"""Factor by which the number of splits grows, if that many splits would still take less than the wanted time."""
_ABORT_FACTOR = 3
_SINGLE_READS = 4


class SplitBatchSize:
    """The number of splits that one attempt reads together. ``most`` is the user's limit.

    A driver that dies loses the work since the last published entry. For small splits this is a few seconds. For splits
        that are larger than the splits before, the loss is at most :attr:`abort_after`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._now = 1
        self._single_seconds = 0.0
        """Average time of a single split in seconds, weighted towards the latest splits; 0 before the first split."""
        self._failures = 0
        self._single_reads_left = 0

    @property
    def now(self) -> int:
        return self._now

    @property
    def abort_after(self) -> float:
        """Seconds after which the task aborts a read of several splits together, and reads the splits one by one."""
        return _ABORT_FACTOR * self._wanted

    @property
    def _wanted(self) -> float:
        return max(SHORT, _GAIN_FACTOR * self._single_seconds)

    def took(self, count: int, seconds: float) -> None:
        """Record that ``count`` splits, read together, took ``seconds``.

        This may change how many are read together next.
        """
        if count == 1:
            self._record_single(seconds)
        elif count == 2 and seconds > _GAIN_FACTOR * self._single_seconds:
            self._read_singly(_SINGLE_READS)  # two single reads would take about as long, or the machine was busy
        elif seconds > _TOO_LONG_FACTOR * self._wanted:
            self._now = max(1, min(self._now, int(count * self._wanted / seconds)))
        elif count == self._now and seconds < self._wanted:
            self._now = min((_GROWTH_FACTOR if seconds < self._wanted / _GROWTH_FACTOR else 2) * count, self._most)

    def failed(self) -> None:
        """Record that a joint read failed or was aborted. Its splits and some later splits are read one by one."""
        self._read_singly(_SINGLE_READS * _SINGLE_READS << min(self._failures, 20))  # twice as many after each failure
        self._failures += 1

    def _record_single(self, seconds: float) -> None:
        self._single_seconds = seconds if not self._single_seconds else (self._single_seconds + seconds) / 2
        self._single_reads_left = max(0, self._single_reads_left - 1)
        if self._now == 1 and not self._single_reads_left and self._single_seconds < SMALL:
            self._now = min(2, self._most)

    def _read_singly(self, splits: int) -> None:
        self._now, self._single_reads_left = 1, splits
