"""The splits that a subtask was assigned and has not read. The module has no threads and no clock."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator

from airflow_provider_ckpt.subtasklog.log_reader import LogReader
from airflow_provider_ckpt.subtasklog.records import Batch, Open


class AssignedSplits:
    """The queue of assigned splits. A repeated command has no effect."""

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
        """Return the splits to read now, at most ``most``. They remain the next ones until they are done."""
        return tuple(itertools.islice(self._queue, most))

    def done(self, splits: Iterable[str]) -> None:
        """Remove splits whose entry is in the log."""
        for split in splits:
            if self._queue and self._queue[0] == split:
                self._queue.popleft()

    def give_back(self, keep: int) -> tuple[str, ...]:
        """Forget all splits after the first ``keep`` and return them. They may be assigned again."""
        given = tuple(itertools.islice(self._queue, keep, None))
        for split in given:
            self._queue.pop()
            self._known.discard(split)
        return given

    @property
    def is_exhausted(self) -> bool:
        """Return whether no split is left and no further one will come."""
        return self._is_last and not self._queue


def published_in(log: LogReader, epoch: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield (splits, position) for each entry that attempts of this epoch have published.

    The entries of earlier epochs were known when this epoch began.
    """
    is_ours = False
    for position, record in log.records():
        if isinstance(record, Open):
            is_ours = record.attempt.epoch == epoch
        elif is_ours and isinstance(record, Batch) and record.splits:
            yield record.splits, position
