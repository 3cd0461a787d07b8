"""What the simulation has found of rescaling: each is a schedule of a few messages."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ckpt.coordinator.commands import AssignSplits, PauseSubtask, RestartSubtask
from airflow_provider_ckpt.coordinator.effects import Effect
from airflow_provider_ckpt.coordinator.enumerator import RestoredSplits
from airflow_provider_ckpt.coordinator.messages import RescaleRequested
from airflow_provider_ckpt.coordinator.reports import SplitCompleted, SubtaskPaused
from airflow_provider_ckpt.coordinator.subtask_table import RestoredState
from airflow_provider_ckpt.model.pause_reason import Rescale
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from tests.coordinator.harness import Harness, graph, only, vertex


def parts(width: int, splits: int) -> Harness:
    """parts (by split) -> v; all of them run."""
    source = replace(vertex("parts", sources="parts", bounded="parts", parallelism=width), splits=True)
    job = graph(source, vertex("v", sinks="sink"), edges="parts>v")
    ids = [f"s{number}" for number in range(splits)]
    restored = RestoredState(splits={"parts": RestoredSplits(ids, source.subtasks)})
    return Harness(job, restored=restored, restart_attempts=5, restart_delay=0.0)


def complete(harness: Harness, split: str, subtask: str) -> list[Effect]:
    return harness.handle(SplitCompleted(**harness.world(subtask), split=split, position=1))


def last(effects: list[Effect]) -> list[str]:
    """Who is told that nothing else comes."""
    return [one.subtask for one in only(AssignSplits, effects) if one.is_last]


def test_r14_with_fewer_subtasks_one_that_failed_reads_what_it_had_if_the_others_have_ended() -> None:
    """It is none of those that go on reading, and was handed s1 before."""
    harness = parts(2, 3)
    assert [one.splits for one in only(AssignSplits, harness.effects)] == [("s0",), ("s1",)]
    harness.handle(RescaleRequested("parts", 1, "r"))
    complete(harness, "s0", "parts/0")
    complete(harness, "s2", "parts/0")
    assert last(harness.effects) == ["parts/1", "parts/0"]
    harness.end_of_data("parts/0")
    harness.done("parts/0")
    harness.fail("parts/1")
    harness.next_attempt("parts/1")
    effects = harness.running("parts/1")
    assert [(one.subtask, one.splits) for one in only(AssignSplits, effects)] == [("parts/1", ("s1",))]
    assert last(complete(harness, "s1", "parts/1")) == ["parts/1"]


def test_r21_a_source_does_not_come_to_its_end_before_those_that_are_to_read_it_have_begun() -> None:
    """Seed 172: whoever had read it to its end would not get the barriers of the new ones."""
    harness = parts(1, 2)
    harness.handle(RescaleRequested("parts", 2, "r"))
    assert only(PauseSubtask, harness.effects)
    complete(harness, "s0", "parts/0")
    complete(harness, "s1", "parts/0")
    assert last(harness.effects) == []
    effects = harness.handle(SubtaskPaused(**harness.world("v/0"), reason=Rescale("parts"), batch_id=3))
    assert only(RestartSubtask, effects) == []
    effects = harness.running("v/0")
    assert [one.subtask for one in only(RestartSubtask, effects)] == [SubtaskId("parts/1")]
    assert last(harness.effects) == ["parts/0"]
