"""Schedules of a few messages in which the simulation found defects of rescaling."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ckpt.coordinator.checkpoints.pending_checkpoint import PendingCheckpoint
from airflow_provider_ckpt.coordinator.protocol.commands import (
    AssignSplits,
    PauseSubtask,
    RestartSubtask,
    ResumeSubtask,
)
from airflow_provider_ckpt.coordinator.protocol.effects import Effect
from airflow_provider_ckpt.coordinator.protocol.reports import SplitsCompleted
from airflow_provider_ckpt.coordinator.state.enumerator import RestoredSplits
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.pause_reason import Rescale
from tests.coordinator.harness import Harness, graph, names, only, rescale_requested, vertex


def parts(width: int, splits: int) -> Harness:
    """Return parts (by split) -> v, with all subtasks running."""
    source = replace(vertex("parts", sources="parts", bounded="parts", parallelism=width), splits=True)
    job = graph(source, vertex("v", sinks="sink"), edges="parts>v")
    ids = [f"s{number}" for number in range(splits)]
    restored = RestoredState(splits={"parts": RestoredSplits(ids, source.subtasks)})
    return Harness(job, restored=restored, restart_attempts=5, restart_delay=0.0)


def complete(harness: Harness, split: str, subtask: str) -> list[Effect]:
    return harness.handle(SplitsCompleted(**harness.world(subtask), splits=(split,), position=1))


def last_assigned(effects: list[Effect]) -> list[str]:
    """Return the subtasks that are notified that their assignment is the last one."""
    return [assignment.subtask for assignment in only(AssignSplits, effects) if assignment.is_last]


def test_r14_a_failed_surplus_subtask_reads_its_assigned_splits_again() -> None:
    """It is no longer a reader of the source, but was handed s1 before."""
    harness = parts(2, 3)
    assert [assignment.splits for assignment in only(AssignSplits, harness.effects)] == [("s0",), ("s1",)]
    harness.handle(rescale_requested("parts", 1, "r"))
    complete(harness, "s0", "parts/0")
    complete(harness, "s2", "parts/0")
    assert last_assigned(harness.effects) == ["parts/1", "parts/0"]
    harness.end_of_data("parts/0")
    harness.done("parts/0")
    harness.fail("parts/1")
    harness.next_attempt("parts/1")
    effects = harness.running("parts/1")
    assert [(assignment.subtask, assignment.splits) for assignment in only(AssignSplits, effects)] == [
        ("parts/1", ("s1",))
    ]
    assert last_assigned(complete(harness, "s1", "parts/1")) == ["parts/1"]


def test_r21_a_source_does_not_end_before_its_new_subtasks_start() -> None:
    """Seed 172: a consumer that had read the source to its end would not receive the barriers of the new subtasks."""
    harness = parts(1, 2)
    harness.handle(rescale_requested("parts", 2, "r"))
    assert only(PauseSubtask, harness.effects)
    complete(harness, "s0", "parts/0")
    complete(harness, "s1", "parts/0")
    assert last_assigned(harness.effects) == []
    effects = harness.paused("v/0", Rescale("parts"))
    assert only(RestartSubtask, effects) == []
    effects = harness.running("v/0")
    assert [restart.subtask for restart in only(RestartSubtask, effects)] == [SubtaskId("parts/1")]
    assert last_assigned(harness.effects) == ["parts/0"]


def rescale_to_two(harness: Harness) -> list[Effect]:
    """Give parts a second subtask, which v then knows. Return the effects of the last message."""
    harness.handle(rescale_requested("parts", 2, "r"))
    harness.paused("v/0", Rescale("parts"))
    return harness.running("v/0")


def test_r21_a_rescale_is_journaled_before_any_pause_or_restart() -> None:
    """The test covers a job with a consumer and one without."""
    harness = parts(1, 9)
    effects = harness.handle(rescale_requested("parts", 2, "r"))
    kinds = names(effects)
    assert kinds.index("Reconfigured") < kinds.index("PauseSubtask")
    source = replace(vertex("parts", sources="parts", bounded="parts", sinks="sink"), splits=True)
    restored = RestoredState(splits={"parts": RestoredSplits(["s0", "s1", "s2"], source.subtasks)})
    kinds = names(Harness(graph(source), restored=restored).handle(rescale_requested("parts", 2, "r")))
    assert kinds.index("Reconfigured") < kinds.index("RestartSubtask")


def test_r21_new_subtasks_start_when_a_consumer_runs_the_new_plan() -> None:
    harness = parts(1, 9)
    assert only(RestartSubtask, harness.handle(rescale_requested("parts", 2, "r"))) == []
    effects = harness.paused("v/0", Rescale("parts"))
    assert only(RestartSubtask, effects) == []
    assert [resume.plan.parallelism for resume in only(ResumeSubtask, effects)] == [{"parts": 2}]
    begun = only(RestartSubtask, harness.running("v/0"))
    assert [(restart.subtask, restart.plan.parallelism) for restart in begun] == [("parts/1", {"parts": 2})]


def test_r21_new_subtasks_do_not_start_while_a_checkpoint_is_pending() -> None:
    """The checkpoint was planned without them. parts has no consumer here that must be notified first."""
    source = replace(vertex("parts", sources="parts", bounded="parts", sinks="sink"), splits=True)
    restored = RestoredState(splits={"parts": RestoredSplits([f"s{n}" for n in range(9)], source.subtasks)})
    harness = Harness(graph(source), restored=restored)
    harness.at(10.0)
    assert harness.c.pending is not None
    assert only(RestartSubtask, harness.handle(rescale_requested("parts", 2, "r"))) == []
    assert [restart.subtask for restart in only(RestartSubtask, harness.ack("parts/0"))] == ["parts/1"]


def pending(harness: Harness) -> PendingCheckpoint | None:
    """Return the currently pending checkpoint."""
    return harness.c.pending


def test_r15_a_checkpoint_waits_until_new_subtasks_run_with_splits() -> None:
    harness = parts(1, 30)
    rescale_to_two(harness)
    harness.at(15.0)
    assert pending(harness) is None
    harness.attempts[SubtaskId("parts/1")] = AttemptId.vacant(1)
    effects = harness.next_attempt("parts/1")
    harness.at(18.0)
    assert pending(harness) is None
    effects = harness.running("parts/1")
    assert [assignment.subtask for assignment in only(AssignSplits, effects) if assignment.splits] == ["parts/1"]
    harness.at(40.0)
    assert "parts/1" in getattr(pending(harness), "remaining", ())
