"""Removal of files that earlier drivers left and no process owns."""

from __future__ import annotations

from airflow_provider_ckpt.journal.requests import forget_requests
from airflow_provider_ckpt.storage.layout import deployment_path, deployments_path, job_path
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.removal import best_effort
from airflow_provider_ckpt.storage.storage import Storage


def tidy_up(storage: Storage, job_id: str, epoch: int) -> None:
    """Delete temporary files of killed writers, requests to earlier drivers, and messages of earlier deployments."""
    with best_effort("the requests to earlier drivers"):
        forget_requests(storage, job_id, epoch)
    with best_effort("the messages of earlier deployments"):
        _forget_deployments(storage, job_id, epoch)
    with best_effort("leftovers of probes"):
        storage.collect_temporary("", LEFT_BEHIND, deep=False)
    with best_effort("leftovers of killed writers"):
        storage.collect_temporary(job_path(job_id), LEFT_BEHIND)


def _forget_deployments(storage: Storage, job_id: str, epoch: int) -> None:
    """Delete the messages of deployments that are over. If a process of one still lives, its messages are no longer
    read."""
    for name in storage.list(deployments_path(job_id)):
        if name.isdecimal() and int(name) < epoch:
            storage.delete_tree(deployment_path(job_id, int(name)))
