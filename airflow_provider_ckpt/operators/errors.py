"""Errors of the Airflow operators."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TransientError


class JobGoneError(TransientError):
    """Missing journal of a job that an earlier try began. The storage may be unmounted, so a retry may help."""

    template = (
        "an earlier try of this task began job {job_id}, and there is nothing of it under {root} now: is the storage "
        "mounted? A retry does not restart the job from scratch; a clear does."
    )
