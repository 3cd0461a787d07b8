"""Whether a job is given up because nothing is journaled for it any more, or no checkpoint gets through. Pure.

Time is counted in looks, which are at least an interval apart: the journal's own times are those of the driver's host,
and two hosts' clocks are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from airflow_provider_ckpt.client.job_facts import has_ended
from airflow_provider_ckpt.job.options import BY_NAME

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState

SHORTEST = 900.0
"""Seconds; longer than Airflow's default retry_delay, in which nobody runs the job."""
_INTERVALS = 3


@dataclass(frozen=True)
class Stillness:
    """How many looks in a row have found something as it was. ``mark``: where it stood."""

    mark: tuple[object, ...] = ()
    looks: int = 0

    def after(self, mark: tuple[object, ...]) -> Stillness:
        return Stillness(mark, self.looks + 1) if mark == self.mark else Stillness(mark)


@dataclass(frozen=True)
class Seen:
    """What the looks before have found: of the whole journal, and of the newest checkpoint."""

    journal: Stillness = Stillness()
    checkpoint: Stillness = Stillness()

    def after(self, state: JobState, *, released: bool) -> Seen:
        """``released``: a checkpoint counts when it is released, not when it is completed."""
        newest = state.last_released if released else state.last_completed
        # an entry comes with every decision that a driver writes: an idle job's checkpoints are some, too
        return Seen(self.journal.after((state.epoch, state.position)), self.checkpoint.after((newest,)))


def patience(state: JobState, driver_alive: bool | None) -> float | None:
    """Seconds without a change after which the driver is taken for gone; None: not to be told from here.

    ``driver_alive``: seen from this host, None if it ran on another one. A driver in streaming mode journals each of
    its checkpoints, so some of their intervals without one are telling; the options are those of the job's first run,
    hence the look at the last checkpoints. A driver in batch mode may journal nothing for hours.
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
    """Seconds, the shortest of the last three between two checkpoints, by the driver's own clock: a pause between two
    runs is none."""
    times = [state.checkpoints[number].triggered_at for number in sorted(state.checkpoints)[-4:]]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return min((gap for gap in gaps if gap > 0), default=0.0)
