"""Journals of a job whose subtasks run in workers, written as a planner and a JobMaster write them; and tasks of a
group over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt import FileSink
from airflow_provider_ckpt.journal.events import DeploymentPrepared, PlanRecorded, StatusChanged, SubtaskFinished
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition, SinkDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.worker import Worker

NAME = "shop.orders.r1"
"""Of the group ``orders`` in the Dag run ``r1``, as of tests.airflow.support.context."""
GRAPH = JobGraph(
    vertices=(
        JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True, parallelism=2),
        JobVertex("rows", ("live", "rows"), ("live",), (), ("out",), bounded=False),
    ),
    edges=(),
)
SUBTASKS = ["history/0", "history/1", "rows/0"]


def prepared(journal: Journal, attempt: str = f"{NAME}~t1.plan", sink: FileSink | None = None) -> Journal:
    """As a planner leaves it; of an old release, unless ``sink`` is told: the one called "out"."""
    epoch = journal.claim(attempt, Worker(), 1.0)
    sinks = {} if sink is None else {"out": SinkDefinition("every_checkpoint", sink.definition())}
    definition = None if sink is None else JobDefinition("streaming", {}, {}, sinks)
    journal.write(PlanRecorded(GRAPH, {}, 1.0, definition))
    journal.write(DeploymentPrepared(epoch, 2.0))
    return journal


def coordinated(journal: Journal, attempt: str = f"{NAME}~t1.coordinate") -> Journal:
    """A JobMaster has claimed it for the workers."""
    journal.claim(attempt, Worker(), 3.0, deployment=journal.refresh().deployment)
    journal.write(StatusChanged(JobStatus.RUNNING, 4.0))
    return journal


def ended(journal: Journal, status: str) -> Journal:
    journal.write(StatusChanged(JobStatus(status), 5.0, "no such column: shop" if status == "FAILED" else None))
    return journal


def finished(journal: Journal, *subtasks: str) -> Journal:
    for subtask in subtasks:
        journal.write(SubtaskFinished(SubtaskId(subtask), "0001-01-a", 4.5))
    return journal


@dataclass
class Told:
    """What Airflow says of the group's tasks: in place of ``Siblings.states``. ``on_look``: called before it answers,
    with how often it was asked."""

    states: Mapping[str, str | None] = field(default_factory=dict)
    looks: int = 0
    on_look: Callable[[int], Any] = lambda number: None

    def __call__(self, siblings: object = None) -> Mapping[str, str | None]:
        self.looks += 1
        self.on_look(self.looks)
        return self.states
