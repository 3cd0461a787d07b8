"""Journals of jobs, written as a driver writes them."""

from __future__ import annotations

from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal


def driver(journal: Journal, attempt: str = "t1") -> Journal:
    """The journal, claimed and RUNNING."""
    journal.claim(attempt, {}, 1.0)
    journal.write_now(StatusChanged("RUNNING", 1.0))
    return journal


def complete(journal: Journal, *checkpoints: int, released: bool = True) -> None:
    for number in checkpoints:
        journal.write_now(CheckpointCompleted(number, 1.0, 2.0, "checkpoint", {}, {}))
        if released:
            journal.write_now(CheckpointReleased(number, 3.0))


def end(journal: Journal, status: str, cause: str | None = None) -> None:
    journal.write_now(StatusChanged(status, 4.0, cause))
