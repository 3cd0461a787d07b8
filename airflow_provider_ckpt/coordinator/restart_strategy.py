"""Whether a failed subtask begins again by itself, and after which pause (Flink: RestartBackoffTimeStrategy)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.model.subtask_id import SubtaskId

MAX_DELAY = 60.0
MULTIPLIER = 1.5
RESET_AFTER = 3600.0
"""The longest pause in seconds, what a pause is multiplied with, and the seconds without a failure after which the
count begins anew: the defaults of Flink's exponential-delay strategy (FLIP-364)."""


@dataclass(frozen=True)
class _Failures:
    in_a_row: int
    delay: float
    at: float


@dataclass(frozen=True)
class Restart:
    """The ``number``-th restart in a row of a subtask, ``delay`` seconds after its failure."""

    number: int
    delay: float


class RestartStrategy:
    """Flink's exponential-delay strategy, of each subtask by itself: the pause grows from failure to failure up to a
    minute, and one that did not fail for an hour counts from the beginning. There is no jitter: all of them are in one
    driver, and none waits for another.

    ``attempts``: restarts in a row; 0 for none. ``delay``: the first pause in seconds.
    """

    def __init__(self, attempts: int, delay: float) -> None:
        self.attempts, self._delay = attempts, delay
        self._failures: dict[SubtaskId, _Failures] = {}

    def failed(self, subtask: SubtaskId, now: float) -> Restart | None:
        """Called once a failure. None: it was restarted as often as it may be."""
        before = self._failures.get(subtask)
        if before is None or now - before.at - before.delay >= RESET_AFTER:
            known = _Failures(1, self._delay, now)
        else:
            known = _Failures(before.in_a_row + 1, min(before.delay * MULTIPLIER, max(MAX_DELAY, self._delay)), now)
        if known.in_a_row > self.attempts:
            return None
        self._failures[subtask] = known
        return Restart(known.in_a_row, known.delay)
