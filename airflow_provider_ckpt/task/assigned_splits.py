"""What a subtask of a source with splits has been handed out, and has still to read. No threads, no clock."""

from __future__ import annotations

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

    def next(self) -> str | None:
        """The split to read now; it stays the next one until it is done."""
        return self._queue[0] if self._queue else None

    def done(self, split: str) -> None:
        """Its entry is in the log."""
        if self._queue and self._queue[0] == split:
            self._queue.popleft()

    @property
    def is_exhausted(self) -> bool:
        """Nothing is left, and nothing will come."""
        return self._is_last and not self._queue


def published_in(log: LogReader, epoch: int) -> Iterator[tuple[str, int]]:
    """(split, position) of what attempts of the epoch have published: what those of earlier ones did was known when it
    began."""
    is_ours = False
    for position, record in log.records():
        if isinstance(record, Open):
            is_ours = record.attempt.epoch == epoch
        elif is_ours and isinstance(record, Batch) and record.split is not None:
            yield record.split, position
