"""Journals of a job with workers, as a planner and a JobMaster write them, and states of a group's tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt import FileSink
from airflow_provider_ckpt.journal.events import (
    DeletionBegun,
    DeploymentPrepared,
    GraphChange,
    JobDeleted,
    PlanRecorded,
    Reconfigured,
    Restored,
    StatusChanged,
    SubtaskFinished,
    SubtasksAdded,
)
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.kinds.reconciliation import JobReconciled, Reset
from airflow_provider_ckpt.model.definition import JobDefinition, SinkDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus, RuntimeMode
from airflow_provider_ckpt.model.worker import Worker

JOB_ID = "shop.orders.r1"
"""Job id of the group ``orders`` in the Dag run ``r1`` of tests.airflow.support.context."""
GRAPH = JobGraph(
    vertices=(
        JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True, parallelism=2),
        JobVertex("rows", ("live", "rows"), ("live",), (), ("out",), bounded=False),
    ),
    edges=(),
)
SUBTASKS = ["history/0", "history/1", "rows/0"]
ADDED_SUBTASK = "history/2"
"""Subtask added by :func:`rescaled`."""


def prepared(
    journal: Journal,
    attempt: str = f"{JOB_ID}~t1.plan",
    sink: FileSink | None = None,
    mode: RuntimeMode = "streaming",
    again: Sequence[str] = (),
) -> Journal:
    """Write the entries of a planner.

    Args:
        sink: the sink called "out".
        again: subtasks whose results are gone.
    """
    epoch = journal.claim(attempt, Worker(), 1.0)
    sinks = {} if sink is None else {"out": SinkDefinition("every_checkpoint", sink.definition())}
    journal.write(PlanRecorded(GRAPH, {}, 1.0, JobDefinition(mode, {}, {}, sinks)))
    if again:
        resets = tuple(Reset(SubtaskId(subtask), ((0, 1),), SubtaskId("rows/0")) for subtask in again)
        journal.write(JobReconciled(epoch, (), {}, resets, 1.5))
    journal.write(DeploymentPrepared(epoch, 2.0))
    return journal


def prepared_from_scratch(journal: Journal, attempt: str = f"{JOB_ID}~t2.coordinate") -> Journal:
    """Write the entries of a planner that restarts a batch job from scratch, because ``batch_recovery`` is off."""
    epoch = journal.claim(attempt, Worker(), 1.0)
    journal.write(Restored(0, {}, 1.0, from_scratch=True))
    journal.write(PlanRecorded(GRAPH, {}, 1.0, JobDefinition("batch", {}, {}, {})))
    journal.write(DeploymentPrepared(epoch, 2.0))
    return journal


def deleted(journal: Journal) -> Journal:
    """Write the deletion of a job that has ended."""
    state = journal.refresh()
    journal.claim(f"{state.attempt}~delete", Worker(), 6.0, releases_only=True)
    journal.write(DeletionBegun(state.status, 6.0))
    journal.write(JobDeleted(7.0))
    return journal


def coordinated(journal: Journal, attempt: str = f"{JOB_ID}~t1.coordinate") -> Journal:
    """Write the claim of a JobMaster for the prepared deployment."""
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


def rescaled(journal: Journal, *, begins: bool = True) -> Journal:
    """Write a rescale of history to three subtasks. The third one runs in the first one's worker.

    ``begins``: the third subtask has been added; otherwise only the graph has changed.
    """
    wider, hosts = GRAPH.rescaled({"history": 3}), {SubtaskId(ADDED_SUBTASK): SubtaskId("history/0")}
    journal.write(Reconfigured(1, {}, 4.2, GraphChange(wider, {"history": 3}, hosts)))
    if begins:
        journal.write(SubtasksAdded((SubtaskId(ADDED_SUBTASK),), 4.3))
    return journal


@dataclass
class FakeTaskStates:
    """Fake of ``Siblings.states``: Airflow's states of the group's tasks.

    ``on_look``: called before each answer with the number of calls so far.
    """

    states: Mapping[str, str | None] = field(default_factory=dict)
    looks: int = 0
    on_look: Callable[[int], Any] = lambda number: None

    def __call__(self, siblings: object = None) -> Mapping[str, str | None]:
        self.looks += 1
        self.on_look(self.looks)
        return self.states
