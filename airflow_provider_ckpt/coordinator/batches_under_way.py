"""Which micro-batches are about to end: a periodic checkpoint waits a little for them.

A barrier that is put in the middle of a micro-batch covers the one before. What the batch does is released by the next
checkpoint, almost an interval after it is done. Put behind it, the barrier covers it: for half a second that one
checkpoint is late by, a second of age is saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_ckpt.model.subtask_id import SubtaskId

SHARE = 0.25
"""Of the checkpoint interval, that one checkpoint is late by at most."""
LONGEST = 1.0
"""Seconds, whatever the interval."""
OVERDUE = 2.0
"""So many times as long as the batch before it, a batch is no longer about to end: nobody knows what it does."""


@dataclass(frozen=True)
class _Batch:
    begun: float
    seconds: float
    """That the one before it took."""


class BatchesUnderWay:
    """``interval``: of the checkpoints, in seconds; times are the coordinator's."""

    def __init__(self, interval: float) -> None:
        self._slack = min(interval * SHARE, LONGEST)
        self._batches: dict[SubtaskId, _Batch] = {}

    def note(self, subtask: SubtaskId, seconds: float | None, now: float) -> None:
        """One has begun that is going to take about ``seconds``; None: it is published, or whoever ran it is over."""
        if seconds is None:
            self._batches.pop(subtask, None)
        else:
            self._batches[subtask] = _Batch(now, seconds)

    def await_those_about_to_end(self, due: float) -> float:
        """When a checkpoint that is due at ``due`` is to be triggered."""
        return max(self._ends(due, due + self._slack), default=due)

    def _ends(self, due: float, latest: float) -> Iterator[float]:
        for one in self._batches.values():
            if one.begun + one.seconds <= latest:
                yield max(due, min(latest, one.begun + one.seconds * OVERDUE))
