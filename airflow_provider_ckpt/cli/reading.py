"""Reading a root without writing to it."""

from __future__ import annotations

import argparse

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.errors import UnknownJobError
from airflow_provider_ckpt.journal.journal import Journal, list_jobs
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import read_root
from airflow_provider_ckpt.storage.storage import Storage

__all__ = ["list_jobs", "open_root_for_reading", "read_job"]


def open_root_for_reading(args: argparse.Namespace) -> Storage:
    """Raises NoRootError, ForeignRootError, NewerFormatError and the storage's errors."""
    return read_root(open_storage(args.root, arguments.storage_options(args)))


def read_job(root: Storage, job_id: str) -> JobState:
    """Raises UnknownJobError, which lists the jobs that are there."""
    state = Journal(root, check_job_id(job_id)).replay()
    if not (state.epoch or state.status or state.damage):
        known = ", ".join(other.job_id for other in list_jobs(root)) or "none"
        raise UnknownJobError(job_id=job_id, root=root.uri, known=known)
    return state
