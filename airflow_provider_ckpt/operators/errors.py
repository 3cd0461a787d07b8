"""Errors of the operators."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TransientError


class SparkConnectionMissingError(InvalidInputError):
    template = (
        "The Airflow connection {conn_id!r}, which says where Spark runs, does not exist. Create it with type spark "
        "and the master as its host (local[*], spark://host:7077, yarn, k8s://...), or name another one with conn_id=."
    )


class OtherRootError(InvalidInputError):
    """A retry of a task under another root than its earlier try. Data: job_id, before, now."""

    template = (
        "an earlier try of this task ran job {job_id} under the root {before}, and the root is {now} now: a retry "
        "would restart the job from scratch. Give the task the earlier root, or clear it to run the job under the new "
        "one."
    )


class JobGoneError(TransientError):
    """The journal of a job that an earlier try began is gone. A share that is not mounted looks empty.

    Data: job_id, root.
    """

    template = (
        "an earlier try of this task began job {job_id}, and there is nothing of it under {root} now: is the storage "
        "mounted? A retry does not restart the job from scratch; a clear does."
    )
