"""Journal of a running job, as its driver writes it, and a client that does not sleep."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.definition import JobDefinition, VertexDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root

GRAPH = JobGraph(
    (
        JobVertex("clean", ("live", "clean"), ("live",), (), (), bounded=False),
        JobVertex("daily", ("daily",), (), (), ("lake",), bounded=False),
    ),
    (),
)
DEFINITION = JobDefinition(
    "streaming",
    {},
    {
        "clean": VertexDefinition("append", stateful=False),
        "daily": VertexDefinition("update", stateful=True, shuffle_partitions=8),
    },
    {},
)


def write_running_job(root: Path, plan: ev.PlanRecorded) -> Journal:
    """Claim the job "orders" for this process and write its plan and RUNNING."""
    journal = Journal(open_root(open_storage(str(root))), "orders")
    journal.claim("t", identify(), 1.0)
    journal.write(plan)
    journal.write(ev.StatusChanged(JobStatus.RUNNING, 1.0))
    return journal


def client(root: Path) -> JobClient:
    return JobClient(str(root), "orders", sleep=lambda seconds: None)
