"""What the drivers before have left, and nobody owns."""

from __future__ import annotations

from airflow_provider_ckpt.journal.requests import forget_requests
from airflow_provider_ckpt.storage.layout import job_path
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.storage import Storage


def tidy_up(storage: Storage, job_id: str, epoch: int) -> None:
    """Remove files of killed writers, and requests that were for the drivers before."""
    forget_requests(storage, job_id, epoch)
    storage.collect_temporary("", LEFT_BEHIND, deep=False)  # of probes
    storage.collect_temporary(job_path(job_id), LEFT_BEHIND)
