"""Splits in the coordinator, which are journaled before they are handed out and covered by the next checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_provider_ckpt.coordinator.protocol.commands import AssignSplits
from airflow_provider_ckpt.coordinator.protocol.effects import Append, Effect
from airflow_provider_ckpt.coordinator.protocol.reports import SplitsCompleted, SplitsReturned
from airflow_provider_ckpt.coordinator.state.enumerator import RestoredSplits
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.journal.events import CheckpointCompleted, SplitsAssigned, SplitsCovered, SplitsDone
from airflow_provider_ckpt.model.ids import SubtaskId
from tests.coordinator.harness import Harness, graph, only, vertex

IDS = [f"s{number}" for number in range(40)]


def splits(published: Any = None, readers: tuple[str, ...] = ("parts/0", "parts/1")) -> Harness:
    parts = replace(vertex("parts", sources="parts", bounded="parts", parallelism=2), splits=True)
    job = graph(parts, vertex("v", sources="live", sinks="sink"))
    restored = RestoredState(
        splits={"parts": RestoredSplits(IDS, [SubtaskId(taker) for taker in readers], published=published or {})}
    )
    return Harness(job, restored=restored, running=False)


def complete(harness: Harness, split: str, position: int, subtask: str = "parts/0") -> list[Effect]:
    return harness.handle(SplitsCompleted(**harness.world(subtask), splits=(split,), position=position))


def appended(kind: type[Any], effects: list[Effect]) -> list[Any]:
    return [effect.event for effect in only(Append, effects) if isinstance(effect.event, kind)]


def test_r14_an_assignment_is_journaled_before_it_is_sent() -> None:
    effects = splits().running(SubtaskId("parts/0"))
    kinds = [type(effect.event) if isinstance(effect, Append) else type(effect) for effect in effects]
    assert kinds.index(SplitsAssigned) < kinds.index(AssignSplits)
    assert appended(SplitsAssigned, effects)[0].splits == ((0, 4),)
    assert only(AssignSplits, effects)[0].splits == ("s0", "s1", "s2", "s3")


def test_a_subtask_that_does_not_run_gets_no_split() -> None:
    assert only(AssignSplits, splits().effects) == []


def test_a_completed_split_is_journaled_once() -> None:
    harness = splits()
    harness.running("parts/0")
    assert [event.splits for event in appended(SplitsDone, complete(harness, "s0", 3))] == [((0, 1),)]
    assert appended(SplitsDone, complete(harness, "s0", 3)) == []
    assert appended(SplitsDone, complete(harness, "unknown", 4)) == []


def test_r14_splits_of_a_replaced_attempt_wait_for_its_successors_report() -> None:
    """The replaced attempt had published s1, and was fenced before it could report s1."""
    harness = splits()
    for name in ("parts/0", "parts/1"):
        harness.running(name)
    before = harness.world("parts/0")
    complete(harness, "s0", 3)
    assert only(AssignSplits, harness.next_attempt("parts/0")) == []
    for number in (4, 5, 6, 7):  # the other subtask runs out of work meanwhile, and gets none of them
        complete(harness, f"s{number}", number, "parts/1")
    assigned = {
        s
        for assignment in only(AssignSplits, harness.effects)
        if assignment.subtask == "parts/1"
        for s in assignment.splits
    }
    assert not assigned & {"s1", "s2", "s3"}
    assert appended(SplitsDone, harness.handle(SplitsCompleted(**before, splits=("s1",), position=4))) == []
    complete(harness, "s1", 4)
    effects = harness.running("parts/0")
    assert only(AssignSplits, effects)[0].splits[:2] == ("s2", "s3")


def test_r14_a_checkpoint_covers_the_splits_before_its_barriers() -> None:
    """An earlier driver published s9. s1 is after the barrier."""
    harness = splits({9: ("parts/1", 2)})
    for name in ("parts/0", "parts/1", "v/0"):
        harness.running(name)
    complete(harness, "s0", 4)
    harness.at(10.0)
    complete(harness, "s1", 6)
    harness.ack("parts/0", position=5)
    harness.ack("parts/1", position=8)
    effects = harness.ack("v/0")
    events = [effect.event for effect in only(Append, effects)]
    at = next(n for n, event in enumerate(events) if isinstance(event, CheckpointCompleted))
    assert events[at - 1] == SplitsCovered("parts", 1, ((0, 1), (9, 10)))
    assert not events[at - 1].decides  # it waits for the completion, and shares its entry
    harness.released()
    harness.at(30.0)
    for name in ("parts/0", "parts/1"):
        harness.ack(name, position=20)
    assert appended(SplitsCovered, harness.ack("v/0")) == [SplitsCovered("parts", 2, ((1, 2),))]


def test_a_checkpoint_covers_all_splits_of_a_closed_subtask() -> None:
    harness = splits(readers=(SubtaskId("parts/0"),))
    for name in ("parts/0", "parts/1", "v/0"):
        harness.running(name)
    complete(harness, "s0", 4)
    harness.end_of_data("parts/0")
    harness.done("parts/0")
    harness.end_of_data("parts/1")
    harness.done("parts/1")
    harness.at(50.0)
    harness.ack("v/0")
    assert appended(SplitsCovered, harness.effects) == [SplitsCovered("parts", 1, ((0, 1),))]


def test_r14_splits_of_one_entry_are_done_and_covered_together() -> None:
    harness = splits()
    for name in ("parts/0", "parts/1", "v/0"):
        harness.running(name)
    world = harness.world("parts/0")
    effects = harness.handle(SplitsCompleted(**world, splits=("s0", "unknown", "s1", "s2"), position=4, together=4))
    assert [event.splits for event in appended(SplitsDone, effects)] == [((0, 3),)]
    harness.at(10.0)
    for name in ("parts/0", "parts/1"):
        harness.ack(name, position=5)
    assert appended(SplitsCovered, harness.ack("v/0")) == [SplitsCovered("parts", 1, ((0, 3),))]


def test_r14_returned_splits_are_journaled_before_they_are_sent_again() -> None:
    harness = splits()
    harness.running("parts/0")
    world = harness.world("parts/0")
    harness.handle(SplitsCompleted(**world, splits=("s0",), position=4, together=8))
    harness.handle(SplitsReturned(**world, splits=tuple(f"s{n}" for n in range(5, 13)), together=1))
    effects = harness.running("parts/1")
    (event,), (command,) = appended(SplitsAssigned, effects), only(AssignSplits, effects)
    assert (event.subtask, event.splits) == ("parts/1", ((5, 9),))
    assert command.splits == ("s5", "s6", "s7", "s8")


def test_repeated_completion_reports_add_only_new_splits() -> None:
    """The next attempt reports all splits in the log, some of which were reported before."""
    harness = splits()
    harness.running("parts/0")
    complete(harness, "s1", 4)
    effects = harness.handle(SplitsCompleted(**harness.world("parts/0"), splits=("s0", "s1", "s2"), position=5))
    assert [event.splits for event in appended(SplitsDone, effects)] == [((0, 1), (2, 3))]
    effects = harness.handle(SplitsCompleted(**harness.world("parts/0"), splits=("s0", "s1", "s2"), position=5))
    assert appended(SplitsDone, effects) == []


def test_r14_a_checkpoint_covers_an_entry_completely_or_not_at_all() -> None:
    """Barriers are between two entries of several splits each."""
    harness = splits()
    for name in ("parts/0", "parts/1", "v/0"):
        harness.running(name)
    world = harness.world("parts/0")
    harness.handle(SplitsCompleted(**world, splits=("s0", "s3"), position=4))
    harness.at(10.0)
    harness.handle(SplitsCompleted(**world, splits=("s1", "s2"), position=6))
    harness.ack("parts/0", position=5)
    harness.ack("parts/1", position=5)
    assert appended(SplitsCovered, harness.ack("v/0")) == [SplitsCovered("parts", 1, ((0, 1), (3, 4)))]
    harness.released()
    harness.at(30.0)
    for name in ("parts/0", "parts/1"):
        harness.ack(name, position=20)
    assert appended(SplitsCovered, harness.ack("v/0")) == [SplitsCovered("parts", 2, ((1, 3),))]


def test_r22_splits_returned_by_a_replaced_attempt_are_ignored() -> None:
    """Its splits were returned and assigned to its successor, so no other subtask may get them."""
    harness = splits()
    harness.running("parts/0")
    before = harness.world("parts/0")
    harness.handle(SplitsCompleted(**before, splits=("s0",), position=4, together=8))
    harness.next_attempt("parts/0")
    harness.running("parts/0")
    harness.handle(SplitsReturned(**before, splits=("s1", "s2", "s3"), together=1))
    assigned = {s for assignment in only(AssignSplits, harness.running("parts/1")) for s in assignment.splits}
    assert assigned == {"s5", "s6", "s7", "s8"}


def test_a_subtask_that_reads_fewer_splits_gets_fewer_ahead() -> None:
    harness = splits()
    harness.running("parts/0")
    world = harness.world("parts/0")
    effects = harness.handle(SplitsCompleted(**world, splits=("s0", "s1", "s2", "s3"), position=4, together=8))
    (many,) = only(AssignSplits, effects)
    assert len(many.splits) > 4
    harness.handle(SplitsReturned(**world, splits=many.splits[4:], together=1))
    (few,) = only(AssignSplits, harness.handle(SplitsCompleted(**world, splits=many.splits[:4], position=5)))
    assert len(few.splits) == 4
