"""What a subtask of a source with splits has been handed out, and has still to read. No threads, no clock."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator

from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.records import Batch, Open


class AssignedSplits:
    """A command that is repeated changes nothing."""

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
        """The splits to read now, ``most`` at the most; they stay the next ones until they are done."""
        return tuple(itertools.islice(self._queue, most))

    def done(self, splits: Iterable[str]) -> None:
        """Their entry is in the log."""
        for split in splits:
            if self._queue and self._queue[0] == split:
                self._queue.popleft()

    def give_back(self, keep: int) -> tuple[str, ...]:
        """Those behind the first ``keep`` are forgotten: they may be assigned once more."""
        given = tuple(itertools.islice(self._queue, keep, None))
        for split in given:
            self._queue.pop()
            self._known.discard(split)
        return given

    @property
    def is_exhausted(self) -> bool:
        """Nothing is left, and nothing will come."""
        return self._is_last and not self._queue


def published_in(log: LogReader, epoch: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """(splits, position) of what attempts of the epoch have published: what those of earlier ones did was known when it
    began."""
    is_ours = False
    for position, record in log.records():
        if isinstance(record, Open):
            is_ours = record.attempt.epoch == epoch
        elif is_ours and isinstance(record, Batch) and record.completes:
            yield record.completes, position
