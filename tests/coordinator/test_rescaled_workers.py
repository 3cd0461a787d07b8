"""Sources with splits that are rescaled while workers run the job: where the new subtasks run, and when (R21)."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ckpt.coordinator.protocol.commands import (
    AssignSplits,
    DeploySubtask,
    PauseSubtask,
    RestartSubtask,
)
from airflow_provider_ckpt.coordinator.protocol.effects import Append, Effect
from airflow_provider_ckpt.coordinator.protocol.reports import SplitsCompleted
from airflow_provider_ckpt.coordinator.state.enumerator import RestoredSplits
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.journal.events import CheckpointTriggered, SubtasksAdded
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.pause_reason import Rescale
from tests.coordinator.harness import Harness, events, graph, graph_changes, only, outcomes, rescale_requested, vertex

IDS = [f"s{number}" for number in range(40)]
V, P0, P1, P2, P3, P4 = map(SubtaskId, ("v/0", "parts/0", "parts/1", "parts/2", "parts/3", "parts/4"))


def workers(
    parallelism: int = 2,
    hosts: dict[SubtaskId, SubtaskId] | None = None,
    waiting: tuple[SubtaskId, ...] = (),
    ids: list[str] = IDS,
    mode: str = "streaming",
) -> Harness:
    """Return parts (by split) -> v under the JobMaster of epoch 7.

    No worker of the deployment of epoch 4 is there.
    """
    parts = replace(vertex("parts", sources="parts", bounded="parts", parallelism=parallelism), splits=True)
    job = graph(parts, vertex("v", sources="h", bounded="h", sinks="sink"), edges="parts>v")
    readers = [SubtaskId.of("parts", number) for number in range(parallelism)]
    splits = {"parts": RestoredSplits(ids, readers)}
    restored = RestoredState(splits=splits, hosts=hosts or {}, waiting=waiting)
    return Harness(job, epoch=7, deployment=4, restored=restored, running=False, has_workers=True, slots=9, mode=mode)


def start(harness: Harness, *subtasks: SubtaskId) -> None:
    for subtask in subtasks:
        harness.next_attempt(subtask)
        harness.running(subtask)


def rescale(harness: Harness, parallelism: int, request: str = "r") -> list[Effect]:
    return harness.handle(rescale_requested("parts", parallelism, request))


def report_paused(harness: Harness) -> list[Effect]:
    return harness.paused(V, Rescale("parts"))


def rescaled(harness: Harness, parallelism: int, *new: SubtaskId, request: str = "r") -> None:
    """Rescale the source to completion."""
    rescale(harness, parallelism, request)
    report_paused(harness)
    harness.running(V)
    for subtask in new:
        harness.attempts[subtask] = AttemptId.vacant(4)
    start(harness, *new)


def test_r21_each_new_subtask_is_colocated_with_a_reader() -> None:
    harness = workers()
    start(harness, P0, P1, V)
    (change,) = graph_changes(rescale(harness, 5))
    assert change.hosts == {P2: P0, P3: P1, P4: P0}


def test_r21_a_colocated_subtask_hosts_no_other_subtask() -> None:
    """Workers are needed only for the subtasks that are not co-located."""
    harness = workers()
    start(harness, P0, P1, V)
    rescaled(harness, 3, P2)
    (change,) = graph_changes(rescale(harness, 5, "s"))
    assert change.hosts == {P3: P1, P4: P0}


def test_a_job_without_workers_colocates_no_subtask() -> None:
    parts = replace(vertex("parts", sources="parts", bounded="parts"), splits=True)
    restored = RestoredState(splits={"parts": RestoredSplits(IDS, [P0])})
    (change,) = graph_changes(rescale(Harness(graph(parts), restored=restored), 2))
    assert change.hosts == {}


def test_r21_new_subtasks_begin_after_consumers_know_them() -> None:
    harness = workers()
    start(harness, P0, P1, V)
    effects = rescale(harness, 3)
    assert len(only(PauseSubtask, effects)) == 1
    assert events(SubtasksAdded, [*effects, *report_paused(harness)]) == []
    effects = harness.running(V)
    (added,) = events(SubtasksAdded, effects)
    assert added.subtasks == (P2,)
    (begin,) = only(RestartSubtask, effects)
    assert effects.index(begin) > effects.index(Append(added))
    harness.now = 100.0
    assert events(CheckpointTriggered, harness.at(100.0)) == [], "the new subtask does not run yet"


def test_a_new_subtasks_first_attempt_has_the_epoch_of_the_deployment() -> None:
    harness = workers()
    start(harness, P0, P1, V)
    rescale(harness, 3)
    report_paused(harness)
    harness.running(V)
    harness.attempts[P2] = AttemptId.vacant(4)
    (deploy,) = only(DeploySubtask, harness.next_attempt(P2))
    assert (deploy.subtask, deploy.attempt, deploy.plan.parallelism) == (P2, AttemptId(4, 1, "b"), {"parts": 3})
    effects = harness.running(P2)
    assert [assignment.subtask for assignment in only(AssignSplits, effects)] == [P2]
    assert outcomes(effects) == ["completed: parts is read by 3"]


def test_a_rescale_to_fewer_subtasks_starts_no_subtask() -> None:
    harness = workers()
    start(harness, P0, P1, V)
    effects = rescale(harness, 1)
    (change,) = graph_changes(effects)
    assert (change.hosts, change.graph.vertex("parts").parallelism) == ({}, 2)
    assert outcomes(effects) == ["accepted", "completed: parts is read by 1"]


# -- the next JobMaster


def test_r21_the_next_jobmaster_starts_waiting_subtasks() -> None:
    harness = workers(3, {P2: P0}, (P2,))
    (added,) = events(SubtasksAdded, harness.effects)
    assert added.subtasks == (P2,)
    assert events(SubtasksAdded, workers(3, {P2: P0}).effects) == []


def test_a_deployed_worker_gets_the_current_parallelism() -> None:
    harness = workers(3, {P2: P0})
    (deploy,) = only(DeploySubtask, harness.next_attempt(V))
    assert deploy.plan.parallelism == {"parts": 3}


def test_r21_a_source_does_not_end_before_all_consumers_have_reported() -> None:
    """A consumer may not know the new subtask. It would take the source for ended with the other subtasks."""
    harness = workers(3, {P2: P0}, ids=["s0", "s1"])
    start(harness, P0, P1)
    assignments = only(AssignSplits, harness.effects)
    assert sorted(split for assigned in assignments for split in assigned.splits) == ["s0", "s1"]
    for subtask, split in (
        (assignments[0].subtask, assignments[0].splits),
        (assignments[1].subtask, assignments[1].splits),
    ):
        harness.handle(SplitsCompleted(**harness.world(subtask), splits=split, position=5))
    start(harness, P2)
    assert not [assignment for assignment in only(AssignSplits, harness.effects) if assignment.is_last]
    harness.next_attempt(V)
    assert not [assignment for assignment in only(AssignSplits, harness.effects) if assignment.is_last], (
        "the consumer has not started with the new plan"
    )
    harness.running(V)
    assert {assignment.subtask for assignment in only(AssignSplits, harness.effects) if assignment.is_last} == {
        P0,
        P1,
        P2,
    }


def test_a_rescale_is_refused_before_all_consumers_have_reported() -> None:
    harness = workers(3, {P2: P0})
    start(harness, P0, P1, P2)
    assert outcomes(rescale(harness, 4)) == [
        "refused: the job was just taken over, and not all consumers of parts have reported; ask again"
    ]
    start(harness, V)
    assert outcomes(rescale(harness, 4, "s")) == ["accepted"]


def test_a_batch_source_ends_without_reports_of_its_consumers() -> None:
    harness = workers(3, {P2: P0}, ids=["s0"], mode="batch")
    start(harness, P0, P1, P2)
    (assigned,) = [assignment for assignment in only(AssignSplits, harness.effects) if assignment.splits]
    harness.handle(SplitsCompleted(**harness.world(assigned.subtask), splits=assigned.splits, position=5))
    assert {assignment.subtask for assignment in only(AssignSplits, harness.effects) if assignment.is_last} == {
        P0,
        P1,
        P2,
    }
