"""The decision to abandon a wait because the journal does not grow or no checkpoint completes.

Time is counted in polls, which are at least an interval apart. The clocks of two hosts are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from airflow_provider_ckpt.client.job_facts import has_ended
from airflow_provider_ckpt.job.options.run_options import BY_NAME

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState

SHORTEST = 900.0
"""Minimum of :func:`stall_limit` in seconds, above Airflow's default retry_delay, during which no driver runs."""
_INTERVALS = 3


@dataclass(frozen=True)
class StallDetector:
    """Count of polls in a row that found the value ``mark`` unchanged."""

    mark: tuple[object, ...] = ()
    polls: int = 0

    def after(self, mark: tuple[object, ...]) -> StallDetector:
        return StallDetector(mark, self.polls + 1) if mark == self.mark else StallDetector(mark)


@dataclass(frozen=True)
class LastProgress:
    """Count of polls since the journal last grew, and count of polls since the newest checkpoint last changed."""

    journal: StallDetector = StallDetector()
    checkpoint: StallDetector = StallDetector()

    def after(self, state: JobState, *, released: bool) -> LastProgress:
        """Return the counts after another poll. If ``released`` is True, only released checkpoints count."""
        newest = state.last_released if released else state.last_completed
        # Each decision of a driver is an entry. An idle job has entries for its checkpoints, too.
        return LastProgress(self.journal.after((state.epoch, state.position)), self.checkpoint.after((newest,)))


def stall_limit(state: JobState, driver_alive: bool | None) -> float | None:
    """Return the seconds without a journal entry after which the driver counts as gone.

    None means that the driver is alive, or that this host cannot judge. A driver in streaming mode journals each of
    its checkpoints, so a few missing checkpoints are conclusive. A driver in batch mode may journal nothing for hours.
    The recorded options are those of the job's first run, so the intervals of the last checkpoints count, too.

    Args:
        driver_alive: True if the driver's process runs on this host, False if it is gone. None for another host.
    """
    if driver_alive:
        return None
    if driver_alive is False or has_ended(state):
        return SHORTEST
    if state.created is None or state.created.mode != "streaming":
        return None
    interval, pause, timeout = (
        state.created.options.seconds(name, BY_NAME[name].default)
        for name in ("checkpoint_interval", "min_pause", "checkpoint_timeout")
    )
    return max(SHORTEST, _INTERVALS * max(interval + pause, _last_interval(state)) + timeout)


def _last_interval(state: JobState) -> float:
    """Return the shortest of the last three checkpoint intervals in seconds; 0 without an interval.

    Longer intervals may contain a pause of the job.
    """
    times = [state.checkpoints[number].triggered_at for number in sorted(state.checkpoints)[-4:]]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return min((gap for gap in gaps if gap > 0), default=0.0)
