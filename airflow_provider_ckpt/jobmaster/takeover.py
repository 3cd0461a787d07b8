"""Taking a job over: claim it, and make sure that the driver before is gone (R8)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import end_worker
from airflow_provider_ckpt.model.worker import Worker

GRACE = 10.0
"""Seconds a fenced driver on this host gets to leave by itself before it is killed."""


@dataclass(frozen=True)
class TakenOver:
    """``before``: what became of the driver before ("none" if there was none, "upgraded" if it is this one)."""

    epoch: int
    before: str
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
    """Claim the next epoch, then see to it that the driver before is gone (only here may it be killed).

    ``attempt``: the caller's name for this try, for the journal. ``admit``, ``releases_only``, ``deployment``,
    ``upgrades``: see :meth:`Journal.claim`. The driver before is the one whose epoch the claim ended, which need not be
    the one that was there when this driver began to get ready.
    """
    now, only = time.time(), releases_only
    epoch = journal.claim(attempt, worker, now, admit, releases_only=only, deployment=deployment, upgrades=upgrades)
    before = end_worker(journal.predecessor, grace=GRACE) if journal.predecessor else "none"
    before = "upgraded" if upgrades else before
    return TakenOver(epoch, before, journal.state.created is not None)
