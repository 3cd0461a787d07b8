"""Takeover of a job: claim it, and make sure that the previous driver is gone (R8)."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ckpt.jobmaster.errors import JobRunsError
from airflow_provider_ckpt.journal.driver_mark import mark
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import end_worker, is_alive
from airflow_provider_ckpt.model.words import ckpt_command
from airflow_provider_ckpt.model.worker import Worker

GRACE = 10.0
"""Seconds in which a fenced driver on this host can exit before it is killed."""


RECENT = 60.0
"""A driver on another host counts as alive for this many seconds after its last journal entry."""


@dataclass(frozen=True)
class TakenOver:
    """The result of a claim.

    Args:
        predecessor: "none", "upgraded" if this process was the driver, else the result of :func:`end_worker`.
        resumed: True if the job has run before.
    """

    epoch: int
    predecessor: str
    resumed: bool


def claim(
    journal: Journal,
    attempt: str,
    worker: Worker,
    admit: Callable[[JobState], None] = lambda state: None,
    *,
    releases_only: bool = False,
    deployment: int = 0,
    upgrades: int = 0,
) -> TakenOver:
    """Claim the next epoch, then make sure that the previous driver is gone. No other function kills a driver.

    A driver marks itself before its claim, so that its successor recognises the process. The previous driver had the
    epoch before the claim, even if it started after this driver. ``attempt`` names this run in the journal.
    """
    now, only = time.time(), releases_only
    mark(worker, journal.root, journal.job_id)
    epoch = journal.claim(attempt, worker, now, admit, releases_only=only, deployment=deployment, upgrades=upgrades)
    predecessor = journal.predecessor
    fate = end_worker(predecessor, journal.root, journal.job_id, grace=GRACE) if predecessor else "none"
    fate = "upgraded" if upgrades else fate
    return TakenOver(epoch, fate, journal.state.created is not None)


def refuse_living_driver(state: JobState, now: float, root: str) -> None:
    """Refuse to take a job over from a driver that lives.

    A driver on this host is looked up by its process. A driver elsewhere counts as alive if it wrote to the journal in
    the last :data:`RECENT` seconds. The process that prepared a job for workers does not count, because it exits.
    ``now`` is in epoch seconds by the clock of this host.

    Raises JobRunsError if another driver has the job and lives.
    """
    worker, alive, last = state.worker, is_alive(state.worker), _last_entry_time(state)
    is_planned = 0 < state.deployment == state.epoch
    if not state.is_held or is_planned or (alive and worker.pid == os.getpid()):
        return
    is_recent = last is not None and abs(now - last) <= RECENT
    if alive is False or (alive is None and not is_recent):
        return
    unseen = "" if alive else ", which cannot be seen from here"
    wrote = "" if last is None else f", last journal entry {max(0, round(now - last))} s ago"
    driver = f"pid {worker.pid or 'unknown'} on host {worker.host or 'unknown'}{unseen}{wrote}"
    stop = ckpt_command("stop", state.job_id, root=root)
    status, wait = state.status or "not RUNNING yet", "" if alive or last is None else _wait(now, last)
    raise JobRunsError(
        "job {job_id!r} is {status}, and has a driver: {driver}. Stop the job first (`{stop}`), or take it from that "
        "driver, which then ends (--take-over){wait}",
        job_id=state.job_id,
        status=status,
        driver=driver,
        stop=stop,
        wait=wait,
    )


def _wait(now: float, last: float) -> str:
    """Return a sentence on how long a driver on another host still counts as alive after its last journal entry."""
    seconds = math.floor(last + RECENT - now) + 1
    return (
        f". If that driver is gone, run this again in {seconds} s: a driver on another host counts as alive until "
        f"{RECENT:g} s after its last journal entry"
    )


def _last_entry_time(state: JobState) -> float | None:
    """Return the time, in epoch seconds, of the newest journal entry whose time is in the state; None without any."""
    begun = [event.at for event in (state.created, state.plan) if event is not None]
    checkpoints = [
        event.at for events in (state.checkpoints, state.triggered, state.releases) for event in events.values()
    ]
    return max([*begun, *checkpoints], default=None)
