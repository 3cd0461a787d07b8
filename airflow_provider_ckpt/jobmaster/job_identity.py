"""The identity of the job that a JobMaster runs (root, id and epoch), and its upgrades."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_ckpt.coordinator.protocol.messages import UpgradeTried
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.model.job_request import UpgradeRequest
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.storage.storage import Storage


@dataclass(frozen=True)
class JobIdentity:
    """The job in its root, and the epoch in which this JobMaster runs it.

    Args:
        deployment: Epoch of the deployment whose workers run the subtasks; 0 if the tasks run in this process.
        upgraded: The upgrade from an earlier version in the same driver, or None.
    """

    storage: Storage
    job_id: str
    epoch: int
    options: RunOptions
    deployment: int = 0
    upgraded: Upgraded | None = None


@dataclass(frozen=True)
class Upgraded:
    """The upgrade by which a JobMaster follows another JobMaster in the same driver.

    The upgrade request is answered when the job is RUNNING again: as the new version or, if that could not start, as
    the old version.

    Args:
        since_epoch: First epoch of the driver. The JobMaster reads requests from this epoch on.
        last_epoch: Last epoch before the upgrade.
        ran: Seconds for which the driver had run the job before the upgrade.
    """

    since_epoch: int
    last_epoch: int
    ran: float
    request: str
    outcome: RequestOutcome


class Upgrades(Protocol):
    """A loader that tries other versions of the job while the current one runs."""

    def submit(self, request: UpgradeRequest, post: Callable[[UpgradeTried], None]) -> None:
        """Start a trial in its own thread, and return at once. ``post`` is called with the result."""

    def close(self) -> None:
        """Stop all trials. A running trial may end shortly after this returns."""
