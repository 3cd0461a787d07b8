"""The decision whether a failed subtask restarts, and after which pause (Flink: RestartBackoffTimeStrategy)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.model.ids import SubtaskId

MAX_DELAY = 60.0
MULTIPLIER = 1.5
RESET_AFTER = 3600.0
"""The longest pause in seconds, the factor from one pause to the next, and the seconds without a failure that reset the
count.

These are the defaults of Flink's exponential-delay strategy (FLIP-364).
"""


@dataclass(frozen=True)
class _Failures:
    in_a_row: int
    delay: float
    at: float


@dataclass(frozen=True)
class Restart:
    """The ``number``-th restart in a row of a subtask. It happens ``delay`` seconds after the failure."""

    number: int
    delay: float


class RestartStrategy:
    """Flink's exponential-delay strategy, for each subtask separately.

    The pause grows from failure to failure up to a minute. A subtask without a failure for an hour starts from the
    first pause again. There is no jitter, because all subtasks are in one driver and none waits for another.

    Args:
        attempts: number of restarts in a row; 0 for none.
        delay: the first pause in seconds.
    """

    def __init__(self, attempts: int, delay: float) -> None:
        self.attempts, self._delay = attempts, delay
        self._failures: dict[SubtaskId, _Failures] = {}

    def failed(self, subtask: SubtaskId, now: float) -> Restart | None:
        """Return the next restart after a failure, or None if no restart is left. Call it once for each failure."""
        before = self._failures.get(subtask)
        if before is None or now - before.at - before.delay >= RESET_AFTER:
            known = _Failures(1, self._delay, now)
        else:
            known = _Failures(before.in_a_row + 1, min(before.delay * MULTIPLIER, max(MAX_DELAY, self._delay)), now)
        if known.in_a_row > self.attempts:
            return None
        self._failures[subtask] = known
        return Restart(known.in_a_row, known.delay)
