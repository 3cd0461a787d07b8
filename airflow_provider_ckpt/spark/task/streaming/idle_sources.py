"""Idle live sources. After ``idle_timeout`` without a row, a source no longer holds back the watermark of its query.

Spark uses the lowest watermark of a query's inputs, and cannot declare a source idle. Within a micro-batch, Spark's
tracker accepts a higher watermark for the next one. Between two micro-batches, Spark has set the watermark of the next
one and refuses another. If no micro-batch comes, the query is therefore stopped, and runs a micro-batch without data at
the higher watermark.

Idleness is judged at the time at which Spark last listed the input, because rows that came later are not known. An idle
source that gets rows again holds back the watermark again. Its rows that are older than the watermark are late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from airflow_provider_ckpt.model.progress import SourceTimes, TimesByInput

QUIET = 2.0
"""Seconds after which the query is stopped to raise its watermark, if no micro-batch has raised it before."""


class IdleSources:
    """The idle sources of one query.

    Args:
        timeouts: source → its ``idle_timeout`` in seconds.
        raise_watermark: sets the watermark of the running query, in epoch milliseconds, if the current one is lower. It
            returns False if the query cannot take one yet.
    """

    def __init__(
        self,
        timeouts: Mapping[str, float],
        raise_watermark: Callable[[int], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.timeouts, self._raise, self._clock = timeouts, raise_watermark, clock
        self._inputs: frozenset[str] = frozenset()
        self._since = 0.0
        self._raised = 0
        self._waiting: tuple[int, float] = 0, 0.0
        """(watermark that the query lacks, time since which it lacks this watermark)."""

    def begin(self, inputs: Collection[str]) -> None:
        """Start to observe a query with these inputs. The timeout of each source starts at this call."""
        self._inputs, self._since, self._raised = frozenset(inputs), self._clock(), 0

    def overdue(self, times: TimesByInput, seen: float) -> int | None:
        """Return the watermark that the query has lacked for :data:`QUIET` seconds; None without such a watermark.

        Call this while the query waits for data. See :meth:`watermark` for the parameters.
        """
        watermark = self.watermark(times, seen)
        if watermark is None or watermark <= self._raised:
            return None
        if watermark != self._waiting[0]:
            self._waiting = watermark, self._clock()
        return watermark if self._clock() - self._waiting[1] >= QUIET else None

    def was_raised(self, watermark: int) -> None:
        """Record that the query has this watermark, or that the caller is about to raise it."""
        self._raised = max(self._raised, watermark)

    def advance_watermark(self, times: TimesByInput, seen: float) -> None:
        """Raise the watermark if idle sources hold it back. Call this within a micro-batch.

        See :meth:`watermark` for the parameters.
        """
        watermark = self.watermark(times, seen)
        if watermark is not None and watermark > self._raised and self._raise(watermark):
            self.was_raised(watermark)

    def watermark(self, times: TimesByInput, seen: float) -> int | None:
        """Return the lowest watermark of the active sources. If all sources are idle, return their highest watermark.

        Return None if no source is idle, if an active source has shown no event time, or if no source has a watermark.

        Args:
            times: event times of all rows that were read, those of the current batch included.
            seen: time at which Spark last listed the input, in epoch seconds.
        """
        if not self.timeouts:
            return None
        active = {uid for uid in self._inputs if not self._is_idle(uid, times, seen)}
        marks = [times.get(uid, SourceTimes()).watermark for uid in active or self._inputs]
        known_marks = [mark for mark in marks if mark is not None]
        if active == self._inputs or not known_marks:
            return None
        if not active:
            return max(known_marks)
        return min(known_marks) if len(known_marks) == len(marks) else None

    def _is_idle(self, uid: str, times: TimesByInput, seen: float) -> bool:
        timeout = self.timeouts.get(uid)
        last_row_at = times.get(uid, SourceTimes()).last_row_at or 0.0
        return timeout is not None and seen - max(last_row_at, self._since) >= timeout
