"""Live sources that are idle: after ``idle_timeout`` without a row they do not hold the watermark of their query.

Spark takes the least watermark of a query's inputs, and has no idleness. Its tracker accepts a higher watermark between
two micro-batches, as it does from its own checkpoint when a query resumes. The next micro-batch is planned with it. A
retry of that micro-batch has the same one. An idle source that has rows again holds the watermark again. Its rows that
are older than the watermark are late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from airflow_provider_ckpt.model.source_times import SourceTimes, TimesByInput


class IdleSources:
    """``timeouts``: source -> its ``idle_timeout`` in seconds. ``raise_watermark``: has the running query go by one, in
    epoch milliseconds, if it is higher than its own."""

    def __init__(
        self,
        timeouts: Mapping[str, float],
        raise_watermark: Callable[[int], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.timeouts, self._raise, self._clock = timeouts, raise_watermark, clock
        self._inputs: frozenset[str] = frozenset()
        self._since = 0.0
        self._raised = 0

    def begin(self, inputs: Collection[str]) -> None:
        """A query starts that reads these. No source of it has been idle so far."""
        self._inputs, self._since, self._raised = frozenset(inputs), self._clock(), 0

    def look(self, times: TimesByInput) -> None:
        """Raise the watermark if idle sources hold it. ``times``: of the batches that are published."""
        if not self.timeouts:
            return
        watermark = self.watermark(times)
        if watermark is not None and watermark > self._raised:
            self._raise(watermark)
            self._raised = watermark

    def watermark(self, times: TimesByInput) -> int | None:
        """Return the watermark of the sources that are not idle; of all sources the highest if each one is.

        None: no source is idle, or one that is not has shown no event time.
        """
        active = {uid for uid in self._inputs if not self._is_idle(uid, times)}
        marks = [times.get(uid, SourceTimes()).watermark for uid in active or self._inputs]
        known = [mark for mark in marks if mark is not None]
        if active == self._inputs or not known:
            return None
        if not active:
            return max(known)
        return min(known) if len(known) == len(marks) else None

    def _is_idle(self, uid: str, times: TimesByInput) -> bool:
        timeout = self.timeouts.get(uid)
        last = times.get(uid, SourceTimes()).last_row_at or 0.0
        return timeout is not None and self._clock() - max(last, self._since) >= timeout
