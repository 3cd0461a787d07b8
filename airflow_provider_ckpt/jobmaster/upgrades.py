"""What a JobMaster knows of upgrades: of the one that it came by, and of those that it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_ckpt.coordinator.messages import UpgradeTried
from airflow_provider_ckpt.journal.requests import UpgradeRequest
from airflow_provider_ckpt.model.request_outcome import RequestOutcome


@dataclass(frozen=True)
class Upgraded:
    """Of a JobMaster that takes the place of another one in the same driver. ``since``: the first epoch of that driver,
    whose requests it takes, ``left``: the last one; ``ran``: seconds for which the job was RUNNING by then. ``request``
    is answered with ``outcome`` as soon as the job is RUNNING again: as the other version, or, if that could not begin,
    as it was."""

    since: int
    left: int
    ran: float
    request: str
    outcome: RequestOutcome


class Upgrades(Protocol):
    """Loads and tries other versions of the job, beside the one that runs."""

    def submit(self, name: str, request: UpgradeRequest, tell: Callable[[UpgradeTried], None]) -> None:
        """Answers by ``tell``, in a thread of its own. Returns at once."""

    def close(self) -> None:
        """Nothing is tried any more when it returns, or soon after."""
