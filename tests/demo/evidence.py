"""Evidence of a successful demo, made of real events. Tests falsify one part of it."""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.checkpoint_view import CheckpointKind, OperatorState
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.worker import Worker
from dags_examples.demo_support.compare import Difference
from dags_examples.demo_support.evidence import Evidence, Kill

DRIVER, JVM = 4711, 4710
GRAPH = JobGraph(
    (
        JobVertex(
            "flights", ("history", "live", "flights"), ("history", "live"), ("history",), ("flights_table",), False
        ),
        JobVertex("daily_delays", ("daily_delays",), (), (), ("delays_table",), False),
    ),
    (),
)
OPERATORS = ("history", "live", "flights", "flights_table", "daily_delays", "delays_table")
RESUMED = "resumed from checkpoint 3; skipped finished operators: history; epoch 2; the driver before: gone"
MONTHS: dict[int, dict[int, int]] = {1: {1: 10, 12: 2}, 2: {2: 10, 12: 1}, 3: {12: 3}, 5: {12: 4}}
INPUT = {1: 10, 2: 10, 12: 10}


def completed(
    number: int, batch: int, *, history: OperatorState, kind: CheckpointKind = "checkpoint", reads_history: bool
) -> list[ev.Event]:
    offsets = {"live": "{}", **({"history": "{}"} if reads_history else {})}
    whole: OperatorState = "finished" if kind == "final" else "running"
    operators: dict[str, OperatorState] = {**dict.fromkeys(OPERATORS, whole), "history": history}
    subtasks = {SubtaskId("flights/0"): Snapshot(position=batch, batch_id=batch, offsets=offsets)}
    return [
        ev.CheckpointTriggered(number, 0.0, kind),
        ev.CheckpointCompleted(number, 0.0, 0.1, kind, subtasks, operators),
        ev.CheckpointReleased(number, 0.2, {}),
    ]


def before_the_kill() -> list[ev.Event]:
    return [
        ev.JobCreated("flights_2013", GRAPH, "streaming", SubmittedOptions(), 0.0),
        ev.EpochClaimed(1, "t1", Worker(pid=DRIVER), 0.0),
        ev.StatusChanged(JobStatus.RUNNING, 0.0),
        *completed(1, 1, history="running", reads_history=True),
        *completed(2, 2, history="running", reads_history=True),
        ev.SourceEnded("flights", "history", 2, 0.0),
        ev.SourceDropped("flights", "history", 2, 0.0),
        *completed(3, 3, history="finished", reads_history=False),
    ]


def after_the_kill(*, reads_history: bool = False) -> list[ev.Event]:
    return [
        ev.EpochClaimed(2, "t2", Worker(pid=DRIVER + 100), 1.0),
        ev.StatusChanged(JobStatus.RUNNING, 1.0),
        *completed(5, 4, history="finished", reads_history=reads_history),
        ev.RequestAnswered("r1", "drain", RequestOutcome.parse("accepted"), 2.0),
        ev.SubtaskFinished(SubtaskId("flights/0"), "a", 2.0),
        *completed(6, 5, history="finished", kind="final", reads_history=False),
        ev.SubtaskFinished(SubtaskId("daily_delays/0"), "a", 2.0),
        ev.StatusChanged(JobStatus.FINISHED, 2.0),
    ]


def state(*parts: list[ev.Event]) -> JobState:
    job_state = JobState("flights_2013")
    for events in parts:
        for event in events:
            event.apply(job_state)
    return job_state


def sound(**changed: Any) -> Evidence:
    values: dict[str, Any] = {
        "kill": killed(),
        "ended": state(before_the_kill(), after_the_kill()),
        "drain": "r1",
        "months": MONTHS,
        "airflow": {"state": "success", "tasks": {"clean": {"state": "success", "try_number": 2}}},
        "log": f"[info] job flights_2013 {RESUMED} [task]",
        "report": {
            "state": "success",
            "tasks": {
                "released": {"returned": {"checkpoint": 6}},
                "count_by_month": {"returned": {"month=1": 10, "month=2": 10, "month=12": 10}},
            },
        },
        "report_log": "Job flights_2013 is RUNNING. Waiting for the final checkpoint (released)",
        "expected_months": INPUT,
        "actual_months": INPUT,
        "flights": Difference(30, 30, 0, 0, ()),
        "delays": Difference(6, 6, 0, 0, ()),
        "unlisted": (),
        "left_over": (),
    }
    return Evidence(**{**values, **changed})


def killed(**changed: Any) -> Kill:
    values: dict[str, Any] = {
        "state": state(before_the_kill()),
        "processes": {JVM: "java", DRIVER: "python"},
        "survivors": (),
        "delivered": 10,
        "released": 6,
    }
    return Kill(**{**values, **changed})
