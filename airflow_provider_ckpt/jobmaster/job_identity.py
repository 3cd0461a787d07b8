"""Which job a JobMaster runs, where, and in which epoch."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.jobmaster.upgrades import Upgraded
from airflow_provider_ckpt.storage.storage import Storage


@dataclass(frozen=True)
class JobIdentity:
    """The job in its root, and the epoch in which this JobMaster runs it. ``deployment``: of the workers that run its
    subtasks, 0 if they are tasks of this process. ``upgraded``: of a driver that has run it before."""

    storage: Storage
    job_id: str
    epoch: int
    options: RunOptions
    deployment: int = 0
    upgraded: Upgraded | None = None
