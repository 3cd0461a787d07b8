"""What the drivers before have left, and nobody owns."""

from __future__ import annotations

from airflow_provider_ckpt.journal.requests import forget_requests
from airflow_provider_ckpt.storage.layout import deployment_path, deployments_path, job_path
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.removal import best_effort
from airflow_provider_ckpt.storage.storage import Storage


def tidy_up(storage: Storage, job_id: str, epoch: int) -> None:
    """Remove files of killed writers, requests that were for the drivers before, and what the workers before and their
    JobMasters had to say to each other."""
    with best_effort("what was asked of the drivers before"):
        forget_requests(storage, job_id, epoch)
    with best_effort("what the workers before and their JobMasters had to say to each other"):
        _forget_deployments(storage, job_id, epoch)
    with best_effort("what probes have left"):
        storage.collect_temporary("", LEFT_BEHIND, deep=False)
    with best_effort("what killed writers have left"):
        storage.collect_temporary(job_path(job_id), LEFT_BEHIND)


def _forget_deployments(storage: Storage, job_id: str, epoch: int) -> None:
    """Those that are over. Of a process that lives on regardless nobody reads what it writes."""
    for name in storage.list(deployments_path(job_id)):
        if name.isdecimal() and int(name) < epoch:
            storage.delete_tree(deployment_path(job_id, int(name)))
