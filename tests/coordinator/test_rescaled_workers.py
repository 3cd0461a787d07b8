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


def come(harness: Harness, *subtasks: SubtaskId) -> None:
    for one in subtasks:
        harness.next_attempt(one)
        harness.running(one)


def rescale(harness: Harness, parallelism: int, request: str = "r") -> list[Effect]:
    return harness.handle(rescale_requested("parts", parallelism, request))


def stands_still(harness: Harness) -> list[Effect]:
    return harness.paused(V, Rescale("parts"))


def rescaled(harness: Harness, parallelism: int, *new: SubtaskId, request: str = "r") -> None:
    """Rescale the source to completion."""
    rescale(harness, parallelism, request)
    stands_still(harness)
    harness.running(V)
    for one in new:
        harness.attempts[one] = AttemptId.vacant(4)
    come(harness, *new)


def test_r21_each_new_subtask_is_put_beside_one_that_reads_the_source() -> None:
    harness = workers()
    come(harness, P0, P1, V)
    (change,) = graph_changes(rescale(harness, 5))
    assert change.hosts == {P2: P0, P3: P1, P4: P0}


def test_r21_one_that_is_beside_another_has_nobody_beside_it() -> None:
    """Workers are needed only for the subtasks that are not co-located."""
    harness = workers()
    come(harness, P0, P1, V)
    rescaled(harness, 3, P2)
    (change,) = graph_changes(rescale(harness, 5, "s"))
    assert change.hosts == {P3: P1, P4: P0}


def test_one_driver_puts_nobody_beside_another() -> None:
    parts = replace(vertex("parts", sources="parts", bounded="parts"), splits=True)
    restored = RestoredState(splits={"parts": RestoredSplits(IDS, [P0])})
    (change,) = graph_changes(rescale(Harness(graph(parts), restored=restored), 2))
    assert change.hosts == {}


def test_r21_nobody_begins_the_new_ones_before_all_know_them_and_checkpoints_are_of_them() -> None:
    harness = workers()
    come(harness, P0, P1, V)
    effects = rescale(harness, 3)
    assert len(only(PauseSubtask, effects)) == 1
    assert events(SubtasksAdded, [*effects, *stands_still(harness)]) == []
    effects = harness.running(V)
    (added,) = events(SubtasksAdded, effects)
    assert added.subtasks == (P2,)
    (begin,) = only(RestartSubtask, effects)
    assert effects.index(begin) > effects.index(Append(added))
    harness.now = 100.0
    assert events(CheckpointTriggered, harness.at(100.0)) == [], "nobody runs it yet"


def test_the_first_attempt_of_a_new_one_is_of_the_workers_deployment() -> None:
    harness = workers()
    come(harness, P0, P1, V)
    rescale(harness, 3)
    stands_still(harness)
    harness.running(V)
    harness.attempts[P2] = AttemptId.vacant(4)
    (deploy,) = only(DeploySubtask, harness.next_attempt(P2))
    assert (deploy.subtask, deploy.attempt, deploy.plan.parallelism) == (P2, AttemptId(4, 1, "b"), {"parts": 3})
    effects = harness.running(P2)
    assert [one.subtask for one in only(AssignSplits, effects)] == [P2]
    assert outcomes(effects) == ["completed: parts is read by 3"]


def test_fewer_read_it_and_nobody_begins() -> None:
    harness = workers()
    come(harness, P0, P1, V)
    effects = rescale(harness, 1)
    (change,) = graph_changes(effects)
    assert (change.hosts, change.graph.vertex("parts").parallelism) == ({}, 2)
    assert outcomes(effects) == ["accepted", "completed: parts is read by 1"]


# -- the next JobMaster


def test_r21_the_next_jobmaster_has_those_begin_that_were_to() -> None:
    harness = workers(3, {P2: P0}, (P2,))
    (added,) = events(SubtasksAdded, harness.effects)
    assert added.subtasks == (P2,)
    assert events(SubtasksAdded, workers(3, {P2: P0}).effects) == []


def test_workers_are_told_how_many_there_are_whatever_they_know() -> None:
    harness = workers(3, {P2: P0})
    (deploy,) = only(DeploySubtask, harness.next_attempt(V))
    assert deploy.plan.parallelism == {"parts": 3}


def test_r21_the_source_has_no_end_before_all_who_read_it_are_heard_of() -> None:
    """A consumer may not know the new subtask. It would take the source for ended with the other subtasks."""
    harness = workers(3, {P2: P0}, ids=["s0", "s1"])
    come(harness, P0, P1)
    told = only(AssignSplits, harness.effects)
    assert sorted(split for one in told for split in one.splits) == ["s0", "s1"]
    for subtask, split in ((told[0].subtask, told[0].splits), (told[1].subtask, told[1].splits)):
        harness.handle(SplitsCompleted(**harness.world(subtask), splits=split, position=5))
    come(harness, P2)
    assert not [one for one in only(AssignSplits, harness.effects) if one.is_last]
    harness.next_attempt(V)
    assert not [one for one in only(AssignSplits, harness.effects) if one.is_last], "it begins again, to know it"
    harness.running(V)
    assert {one.subtask for one in only(AssignSplits, harness.effects) if one.is_last} == {P0, P1, P2}


def test_nothing_is_rescaled_before_that() -> None:
    harness = workers(3, {P2: P0})
    come(harness, P0, P1, P2)
    assert outcomes(rescale(harness, 4)) == [
        "refused: the job was just taken over, and not all consumers of parts have reported; ask again"
    ]
    come(harness, V)
    assert outcomes(rescale(harness, 4, "s")) == ["accepted"]


def test_in_batch_mode_who_reads_it_comes_behind_its_end() -> None:
    harness = workers(3, {P2: P0}, ids=["s0"], mode="batch")
    come(harness, P0, P1, P2)
    (told,) = [one for one in only(AssignSplits, harness.effects) if one.splits]
    harness.handle(SplitsCompleted(**harness.world(told.subtask), splits=told.splits, position=5))
    assert {one.subtask for one in only(AssignSplits, harness.effects) if one.is_last} == {P0, P1, P2}
