"""Roots in the state that a driver leaves, made with the driver's own journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.journal.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointReleased,
    CheckpointTriggered,
    JobCreated,
    LateFilesFound,
    SourceEnded,
    StatusChanged,
)
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from tests.support.journals import write_events

GRAPH = JobGraph(
    (JobVertex("daily", ("history", "live", "daily"), ("history", "live"), ("history",), ("lake",), bounded=False),), ()
)
NOON = 1_772_000_000.0


def claim(root: str, job_id: str = "orders") -> Journal:
    journal = Journal(open_root(open_storage(root)), job_id)
    journal.claim("try-1", Worker(host="worker-7", pid=4711, application_id="app-42"), NOON)
    return journal


@pytest.fixture
def empty_root(tmp_path: Path) -> str:
    root = tmp_path / "root"
    open_root(open_storage(str(root)))
    return str(root)


@pytest.fixture
def running(empty_root: str) -> Journal:
    """Write job ``orders``: checkpoint 1 released, 2 aborted, 3 completed and not released, 4 in progress."""
    journal = claim(empty_root)
    write_events(
        journal,
        JobCreated("orders", GRAPH, "streaming", SubmittedOptions(), NOON),
        StatusChanged(JobStatus.RUNNING, NOON),
        CheckpointTriggered(1, NOON + 30),
        CheckpointCompleted(1, NOON + 30, NOON + 30.25, "checkpoint", {}, {"daily": "running"}),
        CheckpointReleased(1, NOON + 30.5, {"lake": {"files": 3}}),
        CheckpointTriggered(2, NOON + 60),
        CheckpointAborted(2, "CHECKPOINT_EXPIRED", NOON + 660),
        SourceEnded("daily", "history", 17, NOON + 661),
        LateFilesFound("history", tuple(f"/lake/orders/late-{n}.json" for n in range(7)), False, NOON + 662),
        CheckpointTriggered(3, NOON + 700),
        CheckpointCompleted(3, NOON + 700, NOON + 765, "checkpoint", {}, {"history": "finished"}),
        CheckpointTriggered(4, NOON + 800),
    )
    return journal
