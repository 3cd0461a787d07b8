"""Journals of a job whose subtasks run in workers, written as a planner and a JobMaster write them; and tasks of a
group over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt import FileSink
from airflow_provider_ckpt.journal.events import (
    DeletionBegun,
    DeploymentPrepared,
    GraphChanged,
    JobDeleted,
    PlanRecorded,
    Restored,
    StatusChanged,
    SubtaskFinished,
    SubtasksAdded,
)
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.kinds.reconciliation import JobReconciled, Reset
from airflow_provider_ckpt.model.definition import JobDefinition, SinkDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.mode import RuntimeMode
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
BESIDE = "history/2"
"""See :func:`rescaled`."""


def prepared(
    journal: Journal,
    attempt: str = f"{NAME}~t1.plan",
    sink: FileSink | None = None,
    mode: RuntimeMode | None = None,
    again: Sequence[str] = (),
) -> Journal:
    """As a planner leaves it; of an old release, unless ``sink`` is told, the one called "out", or ``mode``. ``again``:
    subtasks whose results are gone."""
    epoch = journal.claim(attempt, Worker(), 1.0)
    sinks = {} if sink is None else {"out": SinkDefinition("every_checkpoint", sink.definition())}
    definition = None if sink is None and mode is None else JobDefinition(mode or "streaming", {}, {}, sinks)
    journal.write(PlanRecorded(GRAPH, {}, 1.0, definition))
    if again:
        resets = tuple(Reset(SubtaskId(one), ((0, 1),), SubtaskId("rows/0")) for one in again)
        journal.write(JobReconciled(epoch, (), {}, resets, 1.5))
    journal.write(DeploymentPrepared(epoch, 2.0))
    return journal


def prepared_anew(journal: Journal, attempt: str = f"{NAME}~t2.coordinate") -> Journal:
    """In batch mode, from nothing: ``batch_recovery`` is off."""
    epoch = journal.claim(attempt, Worker(), 1.0)
    journal.write(Restored(0, {}, 1.0, anew=True))
    journal.write(PlanRecorded(GRAPH, {}, 1.0, JobDefinition("batch", {}, {}, {})))
    journal.write(DeploymentPrepared(epoch, 2.0))
    return journal


def deleted(journal: Journal) -> Journal:
    """Of a job that is over."""
    state = journal.refresh()
    journal.claim(f"{state.attempt}~delete", Worker(), 6.0, releases_only=True)
    journal.write(DeletionBegun(state.status, 6.0))
    journal.write(JobDeleted(7.0))
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


def rescaled(journal: Journal, *, begins: bool = True) -> Journal:
    """history is read by three: the third one runs beside the first one, or is to, some time."""
    wider, hosts = GRAPH.rescaled({"history": 3}), {SubtaskId(BESIDE): SubtaskId("history/0")}
    journal.write(GraphChanged(1, wider, {"history": 3}, 4.2, hosts))
    if begins:
        journal.write(SubtasksAdded((SubtaskId(BESIDE),), 4.3))
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
