"""Journals of jobs, written as a driver writes them."""

from __future__ import annotations

from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker


def start_driver(journal: Journal, attempt: str = "t1") -> Journal:
    """Write the claim of a driver and RUNNING, and return the journal."""
    journal.claim(attempt, Worker(), 1.0)
    journal.write(StatusChanged(JobStatus.RUNNING, 1.0))
    return journal


def complete(journal: Journal, *checkpoints: int, released: bool = True) -> None:
    for number in checkpoints:
        journal.write(CheckpointCompleted(number, 1.0, 2.0, "checkpoint", {}, {}))
        if released:
            journal.write(CheckpointReleased(number, 3.0))


def end(journal: Journal, status: str, cause: str | None = None) -> None:
    journal.write(StatusChanged(JobStatus(status), 4.0, cause))
