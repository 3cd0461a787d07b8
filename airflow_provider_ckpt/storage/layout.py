"""Paths below a checkpoint root. Every function returns a path relative to the root."""

from __future__ import annotations

import re

from airflow_provider_ckpt.storage.errors import InvalidJobIdError, InvalidPathError
from airflow_provider_ckpt.storage.paths import check_path

_JOB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.~-]{0,199}")


def check_job_id(job_id: str) -> str:
    """Return ``job_id`` if it can be the name of a folder. Raises InvalidJobIdError."""
    if not is_job_id(job_id):
        raise InvalidJobIdError(job_id=job_id)
    return job_id


def is_job_id(name: object) -> bool:
    return isinstance(name, str) and _JOB_ID.fullmatch(name) is not None


def job_path(job_id: str) -> str:
    return check_job_id(job_id)


JOURNAL = "journal"
"""Name of the job's folder that remains when the job is deleted."""
PARTS = ("checkpoints", "deployments", "frozen", "overview", "requests", "vertices")
"""Names of the job's other folders, which are deleted with the job. Released output next to them remains."""


def journal_path(job_id: str) -> str:
    """Return the folder of the job's journal, which is an append log."""
    return f"{job_path(job_id)}/{JOURNAL}"


def frozen_path(job_id: str, uid: str, epoch: int = 0) -> str:
    """Return the path of the frozen end of a bounded source (R11).

    Attempts of the source in epochs before ``epoch`` (``JobState.valid_from``) are void; 0 if none is void.
    """
    suffix = f".{epoch:04d}" if epoch else ""
    return f"{job_path(job_id)}/frozen/{_segment(uid)}{suffix}.json"


def late_path(frozen: str) -> str:
    """Return the path of the list of files that came after the list of a source's files was frozen.

    ``frozen``: path of the frozen list.
    """
    folder, _, name = frozen.rpartition("/")
    return f"{folder}/late/{name}"


def vertices_path(job_id: str) -> str:
    """Return the folder with a folder for each vertex, which has a folder for each subtask."""
    return f"{job_path(job_id)}/vertices"


def subtask_path(job_id: str, vertex: str, subtask: int) -> str:
    return f"{vertices_path(job_id)}/{_segment(vertex)}/{subtask:d}"


def subtask_log_path(job_id: str, vertex: str, subtask: int) -> str:
    """Return the folder of the subtask's log, which is an append log (R1)."""
    return f"{subtask_path(job_id, vertex, subtask)}/log"


def prepared_path(job_id: str, vertex: str, subtask: int) -> str:
    """Return the folder of the prepared records of unpublished micro-batches (R1)."""
    return f"{subtask_path(job_id, vertex, subtask)}/prepared"


def partition_path(job_id: str, vertex: str, subtask: int) -> str:
    """Return the folder of the data files in the subtask's result partition."""
    return f"{subtask_path(job_id, vertex, subtask)}/partition"


def checkpoint_path(job_id: str, checkpoint: int) -> str:
    return f"{job_path(job_id)}/checkpoints/chk-{checkpoint:d}"


def metadata_path(job_id: str, checkpoint: int) -> str:
    """Return the path of the portable copy of a completed checkpoint."""
    return f"{checkpoint_path(job_id, checkpoint)}/_metadata"


def overview_path(job_id: str) -> str:
    """Return the path of the job's overview, which its JobMaster replaces every few seconds."""
    return f"{job_path(job_id)}/overview/current.json"


def requests_path(job_id: str) -> str:
    """Return the folder of the requests to the job (R22)."""
    return f"{job_path(job_id)}/requests"


def request_path(job_id: str, name: str) -> str:
    return f"{requests_path(job_id)}/{_segment(name)}.json"


def deployments_path(job_id: str) -> str:
    return f"{job_path(job_id)}/deployments"


def deployment_path(job_id: str, deployment: int) -> str:
    """Return the folder for messages between the JobMaster and the workers of a deployment."""
    return f"{deployments_path(job_id)}/{deployment:04d}"


def _segment(name: str) -> str:
    if "/" in name:
        raise InvalidPathError(path=name)
    return check_path(name)
