"""The identity of the job that a JobMaster runs: root, id and epoch."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.jobmaster.upgrades import Upgraded
from airflow_provider_ckpt.storage.storage import Storage


@dataclass(frozen=True)
class JobIdentity:
    """The job in its root, and the epoch in which this JobMaster runs it.

    Args:
        deployment: Deployment of the workers that run the subtasks; 0 if the tasks run in this process.
        upgraded: Facts about the earlier version, if this driver has run the job before.
    """

    storage: Storage
    job_id: str
    epoch: int
    options: RunOptions
    deployment: int = 0
    upgraded: Upgraded | None = None
