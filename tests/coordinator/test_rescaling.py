"""Sources with splits whose parallelism changes while the job runs: commit, notify the consumers, start (R21)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.protocol.commands import (
    AssignSplits,
    DeploySubtask,
    PauseSubtask,
    RestartSubtask,
    ResumeSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.coordinator.protocol.effects import Append, Effect
from airflow_provider_ckpt.coordinator.protocol.reports import SplitsCompleted, SubtaskFailed
from airflow_provider_ckpt.coordinator.state.enumerator import RestoredSplits
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.journal.events import (
    CheckpointCompleted,
    CheckpointTriggered,
    Reconfigured,
    StatusChanged,
)
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.pause_reason import Rescale
from tests.coordinator.harness import Harness, events, graph, graph_changes, only, outcomes, rescale_requested, vertex

IDS = [f"s{number}" for number in range(40)]
NEW = SubtaskId("parts/2")
V = SubtaskId("v/0")


def parts_and_consumer(ids: list[str] = IDS, *, running: bool = True, **options: Any) -> Harness:
    """Return a job of parts (two subtasks, by split) -> v (with a live source and a sink)."""
    parts = replace(vertex("parts", sources="parts", bounded="parts", parallelism=2), splits=True)
    job = graph(parts, vertex("v", sources="live", sinks="sink"), edges="parts>v")
    readers = [SubtaskId("parts/0"), SubtaskId("parts/1")]
    restored = RestoredState(splits={"parts": RestoredSplits(ids, readers)})
    return Harness(job, restored=restored, running=running, **options)


def rescale(harness: Harness, parallelism: int, uid: str = "parts", request: str = "r") -> list[Effect]:
    return harness.handle(rescale_requested(uid, parallelism, request))


def report_paused(harness: Harness, subtask: str = "v/0") -> list[Effect]:
    return harness.paused(subtask, Rescale("parts"))


def opened(harness: Harness, subtask: SubtaskId = NEW) -> list[Effect]:
    """Report the subtask's first attempt, which follows the placeholder for an attempt."""
    harness.attempts[subtask] = AttemptId.vacant(1)
    return harness.next_attempt(subtask)


def rescale_to_three(harness: Harness) -> None:
    """Rescale to three subtasks, to completion."""
    rescale(harness, 3)
    report_paused(harness)
    harness.running(V)
    opened(harness)
    harness.running(NEW)


def test_r21_a_rescale_is_journaled_before_any_command() -> None:
    effects = rescale(parts_and_consumer(), 3)
    kinds = [type(effect.event) if isinstance(effect, Append) else type(effect) for effect in effects]
    assert kinds.index(Reconfigured) < kinds.index(PauseSubtask)
    (change,) = graph_changes(effects)
    assert (change.graph.vertex("parts").parallelism, change.rescaled) == (3, {"parts": 3})
    assert only(RestartSubtask, effects) == []
    assert outcomes(effects) == ["accepted"]


def test_r21_consumers_resume_with_the_new_plan_before_subtasks_start() -> None:
    harness = parts_and_consumer()
    rescale(harness, 3)
    effects = report_paused(harness)
    (resume,) = only(ResumeSubtask, effects)
    assert (resume.subtask, resume.plan.parallelism, resume.plan.number) == (V, {"parts": 3}, 1)
    assert only(RestartSubtask, effects) == []
    (begin,) = only(RestartSubtask, harness.running(V))
    assert (begin.subtask, begin.attempt, begin.delay) == (NEW, AttemptId.vacant(1), 0.0)
    assert begin.plan.parallelism == {"parts": 3}


def test_new_subtasks_read_splits_and_the_request_is_completed() -> None:
    harness = parts_and_consumer()
    rescale(harness, 3)
    report_paused(harness)
    harness.running(V)
    (deploy,) = only(DeploySubtask, opened(harness))
    assert deploy.subtask == NEW
    effects = harness.running(NEW)
    assert [assignment.subtask for assignment in only(AssignSplits, effects)] == [NEW]
    assert outcomes(effects) == ["completed: parts is read by 3"]


def test_a_next_attempt_of_the_consumer_runs_the_new_plan() -> None:
    """The consumer fails after it was commanded to pause. Its next attempt runs the new plan from the start."""
    harness = parts_and_consumer(restart_attempts=3)
    rescale(harness, 3)
    harness.fail(V)
    effects = harness.next_attempt(V)
    (deploy,) = only(DeploySubtask, effects)
    assert deploy.plan.parallelism == {"parts": 3}
    assert [restart.subtask for restart in only(RestartSubtask, effects)] == [NEW]
    assert only(PauseSubtask, harness.running(V)) == []


def test_r15_the_next_checkpoint_waits_for_the_new_subtasks() -> None:
    harness = parts_and_consumer()
    rescale(harness, 3)
    report_paused(harness)
    harness.running(V)
    harness.at(100.0)
    opened(harness)
    harness.at(200.0)
    assert events(CheckpointTriggered, harness.effects) == []
    effects = harness.running(NEW)
    assert len(events(CheckpointTriggered, effects)) == 1
    assert {barrier.subtask for barrier in only(TriggerBarrier, effects)} == {"parts/0", "parts/1", "parts/2"}
    for name in ("parts/0", "parts/1", "parts/2"):
        harness.ack(name)
    harness.ack(V, inputs={"parts_v/2": 1}, position=9)
    (completed,) = events(CheckpointCompleted, harness.effects)
    assert set(completed.subtasks) == {"parts/0", "parts/1", "parts/2", "v/0"}


def test_r19_the_cut_is_checked_on_new_channels() -> None:
    harness = parts_and_consumer()
    rescale_to_three(harness)
    harness.at(100.0)
    for name in ("parts/0", "parts/1"):
        harness.ack(name, position=4)
    harness.ack("parts/2", position=1)
    harness.ack(V, inputs={"parts_v/2": 2}, position=4)
    (ended,) = [change for change in events(StatusChanged, harness.effects) if change.status == "FAILED"]
    assert "parts/2" in str(ended.cause)


def test_r20_a_rescale_waits_for_the_pending_checkpoint() -> None:
    harness = parts_and_consumer()
    harness.at(10.0)
    assert only(PauseSubtask, rescale(harness, 3)) == []
    for name in ("parts/0", "parts/1"):
        harness.ack(name)
    (pause,) = only(PauseSubtask, harness.ack(V))
    assert pause.reason == Rescale("parts")


def test_new_subtasks_do_not_start_during_a_checkpoint() -> None:
    """The pending checkpoint was planned without the new subtasks.

    Here it is triggered as soon as the consumer runs again.
    """
    harness = parts_and_consumer(interval=5.0)
    rescale(harness, 3)
    harness.at(50.0)
    report_paused(harness)
    harness.end_of_data("parts/0")  # a subtask now waits for a checkpoint
    effects = harness.running(V)
    began, triggered = only(RestartSubtask, effects), events(CheckpointTriggered, effects)
    assert len(began) + len(triggered) == 1


def test_with_fewer_subtasks_a_surplus_subtask_gets_its_last_assignment() -> None:
    harness = parts_and_consumer()
    effects = rescale(harness, 1)
    assert outcomes(effects) == ["accepted", "completed: parts is read by 1"]
    (change,) = graph_changes(effects)
    assert (change.graph.vertex("parts").parallelism, change.rescaled) == (2, {"parts": 1})
    for number, split in enumerate(["s4", "s5", "s6"]):
        harness.handle(SplitsCompleted(**harness.world("parts/1"), splits=(split,), position=number + 1))
    last = [assignment for assignment in only(AssignSplits, harness.effects) if assignment.subtask == "parts/1"][-1]
    assert (last.splits, last.is_last) == ((), True)
    assert only(PauseSubtask, harness.effects) == []


def test_a_subtask_with_an_unreported_end_gets_no_split() -> None:
    """Found by the simulation (seeds 84095 and 107190). The end of the subtask was in no journal entry.

    The remaining splits were then reserved for it alone, the others left, and no subtask read them.
    """
    harness, reads = with_one_ended_subtask(), SubtaskId("parts/1")
    harness.handle(rescale_requested("parts", 1, "r"))
    effects = harness.running(reads)
    (assigned,) = only(AssignSplits, effects)
    assert (assigned.subtask, bool(assigned.splits), assigned.is_last) == (reads, True, False)


def test_a_subtask_whose_log_has_its_end_counts_as_no_reader() -> None:
    effects = with_one_ended_subtask().handle(rescale_requested("parts", 2, "r"))
    assert graph_changes(effects)[0].graph.vertex("parts").parallelism == 3


def with_one_ended_subtask() -> Harness:
    """Return a source where parts/0 has ended, as its log records."""
    parts = replace(vertex("parts", sources="parts", bounded="parts", parallelism=2), splits=True)
    splits = RestoredSplits(IDS, [SubtaskId("parts/1")], ended=[SubtaskId("parts/0")])
    return Harness(graph(parts), restored=RestoredState(splits={"parts": splits}), running=False)


def test_a_leaving_subtask_stays_if_it_was_not_notified() -> None:
    harness = parts_and_consumer()
    rescale(harness, 1)
    effects = rescale(harness, 2, request="again")
    assert graph_changes(effects)[0].graph.vertex("parts").parallelism == 2
    assert outcomes(effects) == ["accepted", "completed: parts is read by 2"]


def test_reconfigurations_are_numbered_upwards() -> None:
    harness = parts_and_consumer()
    rescale(harness, 1, request="a")
    rescale(harness, 2, request="b")
    rescale_to_three(harness)
    assert [change.number for change in events(Reconfigured, harness.effects)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("uid", "parallelism", "why"),
    [
        ("v", 2, "v is no source with splits; only such a source can get another parallelism"),
        ("unknown", 2, "unknown is no operator of the job; there are: parts, live, v"),
        ("parts", 0, "parts: parallelism is a whole number above 0, not 0"),
    ],
)
def test_an_impossible_rescale_is_refused_by_name(uid: str, parallelism: int, why: str) -> None:
    effects = rescale(parts_and_consumer(), parallelism, uid)
    assert outcomes(effects)[0].startswith(f"refused: {why}")
    assert len(effects) == 1


def test_a_second_change_is_refused_with_the_name_of_the_first() -> None:
    harness = parts_and_consumer()
    rescale(harness, 3, request="first")
    effects = rescale(harness, 4, request="second")
    assert outcomes(effects) == ["refused: reconfiguration 1 (of parts, request first) is in progress"]
    assert graph_changes(effects) == []


def test_more_subtasks_than_splits_are_refused() -> None:
    """Each subtask has a log and stays for the life of the job, so a typing error could not be undone."""
    refused = outcomes(rescale(parts_and_consumer(), 41))
    assert refused == ["refused: parts has 40 splits left to read, and cannot be read by 41 subtasks"]
    assert outcomes(rescale(parts_and_consumer(), 40)) == ["accepted"]


def test_r14_a_job_with_unread_splits_does_not_finish() -> None:
    """No schedule is known that leads to this state. If there is one, the job must report it, not lose data
    silently."""
    source = replace(vertex("parts", sources="parts", bounded="parts"), splits=True)
    restored = RestoredState(splits={"parts": RestoredSplits(["a", "b"], [SubtaskId("parts/0")])})
    harness = Harness(graph(source), restored=restored)
    harness.end_of_data("parts/0")
    harness.done("parts/0")
    (ended,) = events(StatusChanged, harness.effects)[-1:]
    assert str(ended.status) == "FAILED"
    assert "every subtask has ended, but none has read 2 splits of parts" in str(ended.cause)


def test_more_subtasks_are_refused_when_all_splits_are_assigned() -> None:
    assert outcomes(rescale(parts_and_consumer(["a", "b"]), 3)) == ["refused: all splits of parts are assigned"]


@pytest.mark.parametrize("mode", ["stop", "drain"])
def test_a_rescale_of_an_ending_job_is_refused(mode: Any) -> None:
    harness = parts_and_consumer()
    harness.request(mode)
    assert outcomes(rescale(harness, 3))[-1] == "refused: the job is being ended"


def test_a_stop_precedes_a_rescale_and_the_next_run_applies_it() -> None:
    harness = parts_and_consumer()
    rescale(harness, 3)
    report_paused(harness)
    harness.request("stop", "s")
    harness.running(V)
    for name in ("parts/0", "parts/1", "v/0"):
        harness.ack(name)
    harness.released()
    assert only(RestartSubtask, harness.effects) == []
    assert [str(change.status) for change in events(StatusChanged, harness.effects)][-1] == "STOPPED"
    assert harness.answers("s")[-1].startswith("completed")
    assert harness.answers("r")[-1] == "failed: the job became STOPPED first; later runs apply it"


def test_a_drain_does_not_prevent_the_end_of_a_rescale() -> None:
    harness = parts_and_consumer()
    rescale(harness, 3)
    harness.request("drain", "d")
    report_paused(harness)
    harness.running(V)
    opened(harness)
    assert outcomes(harness.running(NEW))[-1] == "completed: parts is read by 3"


def test_a_new_subtask_that_fails_to_start_ends_the_run() -> None:
    harness = parts_and_consumer()
    rescale(harness, 3)
    report_paused(harness)
    harness.running(V)
    first = AttemptId.vacant(1).next("x")
    harness.handle(SubtaskFailed(1, NEW, first, cause="the storage does not answer"))
    (ended,) = [change for change in events(StatusChanged, harness.effects) if change.status == "RESTARTING"]
    assert "parts/2: the storage does not answer" in str(ended.cause)
    assert harness.answers("r")[-1].startswith("failed: the job became RESTARTING first")


def test_a_new_subtask_that_does_not_start_in_time_ends_the_run() -> None:
    harness = parts_and_consumer(timeout=60.0)
    rescale(harness, 3)
    report_paused(harness)
    harness.running(V)
    harness.at(harness.now + 60.0)
    (ended,) = [change for change in events(StatusChanged, harness.effects) if change.status == "RESTARTING"]
    assert "parts/2: its next attempt has not begun within 60 s" in str(ended.cause)


def test_a_rescale_waits_for_subtasks_that_are_still_starting() -> None:
    """They were deployed with the previous plan."""
    harness = parts_and_consumer(running=False)
    assert only(PauseSubtask, rescale(harness, 3)) == []
    for name in ("parts/0", "parts/1"):
        harness.running(name)
    (pause,) = only(PauseSubtask, harness.running(V))
    assert pause.reason == Rescale("parts")
