"""Errors of the operators."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TransientError


class SparkConnectionMissingError(InvalidInputError):
    template = (
        "The Airflow connection {conn_id!r}, which says where Spark runs, does not exist. Create it with type spark "
        "and the master as its host (local[*], spark://host:7077, yarn, k8s://...), or name another one with conn_id=."
    )


class OtherRootError(InvalidInputError):
    """Data: job_id, before, now."""

    template = (
        "an earlier try of this task ran job {job_id} under the root {before}, and the root is {now} now: a retry "
        "would begin the job anew. Give the task the root of before; or clear it, to run the job under the other one."
    )


class JobGoneError(TransientError):
    """A share that is not mounted is an empty folder. Data: job_id, root."""

    template = (
        "job {job_id} was begun for this task, and there is nothing of it under {root} now: is the storage there? A "
        "retry does not begin the job anew; a clear does."
    )
