"""Trigger, acknowledge, complete, fail.

Flink's named cases (SYSTEMS 1.4-1.6) and where they are:

==================================================== ================================================
CheckpointCoordinatorTest
  testCheckpointAbortsIfTriggerTasksAreFinished      test_with_the_feature_off_...
  testCheckpointTriggeredAfterSomeTasksFinished...   test_a_finished_subtask_is_in_the_completed_...
  testTasksFinishDuringTriggering                    test_r20_... (re-planned here, not aborted)
PendingCheckpointTest
  testReportTaskFinishedOnRestore                    test_a_finished_subtask_is_in_the_completed_...
  testReportTaskFinishedOperators                    test_an_operator_that_ran_to_its_end_is_not_finished
DefaultCheckpointPlanTest
  testFulfillFinishedStates                          test_operator_states_...
  union list state cases                             none: there is no union list state in Spark
  testFulfillFullyFinishedStatesWithCoordinator      none: an operator has no coordinator state here
FullyFinishedOperatorStateTest, MetadataV3Serializer none: finished operators have no state object; JSON
SYSTEMS 1.8 (restore)                                test_finished.py
SYSTEMS 1.9, 1.11 (finishing, stop)                  test_finishing.py
SYSTEMS 1.10 (barriers on the task)                  the runner's; its rule is simulated in tests/simulation
==================================================== ================================================
"""

from __future__ import annotations

import typing

import pytest

from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import CheckpointFailureReason as Reason
from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import DeclineReason, FailureTracker
from airflow_provider_ckpt.coordinator.protocol.checkpoint_options import MAX_UNRELEASED, CheckpointOptions
from airflow_provider_ckpt.coordinator.protocol.commands import TriggerBarrier
from airflow_provider_ckpt.coordinator.protocol.effects import Append, EndJob, NotifyCompleted, Release
from airflow_provider_ckpt.coordinator.protocol.messages import ReleaseDone
from airflow_provider_ckpt.coordinator.protocol.reports import BarrierAcknowledged, SubtaskFailed
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.journal.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointTriggered,
    StatusChanged,
)
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.progress import Snapshot
from tests.coordinator.harness import CHAIN, SRC0, V0, A, Harness, events, graph, names, only, vertex


def test_a_checkpoint_goes_from_trigger_to_release() -> None:
    h = Harness()
    assert h.c.status == "RUNNING"
    assert h.c.next_deadline(0.0) == 10.0
    assert h.at(9.9) == []
    assert names(h.at(10.0)) == ["CheckpointTriggered", "TriggerBarrier"]
    assert names(h.ack()) == ["CheckpointCompleted", "NotifyCompleted", "Release"]
    assert names(h.released()) == ["CheckpointReleased"]
    assert (h.c.last_completed, h.c.last_released) == (1, 1)


def test_r10_the_id_is_journaled_before_the_barrier_and_follows_the_last() -> None:
    h = Harness(restored=RestoredState(last_triggered=7, last_completed=5, last_released=5))
    first, second = h.at(10.0)
    assert isinstance(first, Append)
    assert first.event.decides
    assert first.event == CheckpointTriggered(8, 10.0, "checkpoint")
    assert second == TriggerBarrier(1, V0, A, 8)


def test_missed_intervals_cause_no_extra_checkpoints() -> None:
    h = Harness()
    assert len(events(CheckpointTriggered, h.at(100.0))) == 1
    h.ack()
    assert h.at(109.9) == []
    assert len(events(CheckpointTriggered, h.at(110.0))) == 1


def test_min_pause_counts_from_the_end_of_the_previous_checkpoint() -> None:
    h = Harness(interval=1.0, min_pause=5.0)
    h.at(1.0)
    h.now = 3.0
    h.ack()
    assert h.c.next_deadline(3.0) == 8.0
    assert h.at(7.9) == []
    assert names(h.at(8.0))[0] == "CheckpointTriggered"


def test_no_checkpoint_is_triggered_before_all_subtasks_run() -> None:
    """testPlanCalculationWhenOneTaskNotRunning"""
    h = Harness(CHAIN, running=False)
    h.running("src/0")
    assert h.at(50.0) == []
    assert h.c.failures_in_a_row == 0
    assert names(h.running("mid/0")) == ["StatusChanged"]


def test_r15_waiting_for_the_final_checkpoint_counts_as_running() -> None:
    two = graph(vertex("a", sources="a", bounded="a", sinks="s"), vertex("b", sources="b", sinks="t"))
    h = Harness(two)
    assert names(h.end_of_data("a/0")) == ["SubtaskEndOfData", "CheckpointTriggered", *["TriggerBarrier"] * 2]


def test_a_checkpoint_waits_for_every_acknowledgement_and_takes_each_once() -> None:
    h = Harness(CHAIN)
    h.at(10.0)
    assert h.ack("src/0") == []
    assert h.ack("src/0") == []
    assert h.c.dropped_messages == {"checkpoint": 1}
    assert events(CheckpointCompleted, h.ack("mid/0"))


@pytest.mark.parametrize("checkpoint", [0, 2, 99])
def test_an_acknowledgement_of_another_checkpoint_is_dropped(checkpoint: int) -> None:
    h = Harness()
    h.at(10.0)
    assert h.ack(checkpoint=checkpoint) == []
    assert h.c.dropped_messages == {"checkpoint": 1}


def test_r22_messages_of_another_epoch_attempt_or_subtask_are_dropped() -> None:
    h = Harness(epoch=3)
    h.at(10.0)
    snapshot = Snapshot(1, 1)
    mine = AttemptId(3, 0, "a")
    assert h.handle(BarrierAcknowledged(2, V0, mine, 1, snapshot)) == []
    assert h.handle(BarrierAcknowledged(3, V0, AttemptId(3, 0, "b"), 1, snapshot)) == []
    assert h.handle(BarrierAcknowledged(3, SubtaskId("w/0"), mine, 1, snapshot)) == []
    assert h.handle(ReleaseDone(2, 1, "sink", {})) == []
    assert h.handle(SubtaskFailed(2, V0, mine, "an old driver was killed", True)) == []
    assert h.c.dropped_messages == {"epoch": 3, "attempt": 1, "subtask": 1}
    assert not h.c.is_over


def test_r22_reports_of_a_replaced_attempt_are_dropped() -> None:
    h = Harness()
    h.next_attempt()
    assert h.running(attempt=A) == []
    assert h.handle(SubtaskFailed(1, V0, A, "killed", True)) == []
    assert h.c.dropped_messages == {"attempt": 2}
    assert not h.c.is_over


def test_the_cut_is_checked_on_every_completed_checkpoint() -> None:
    h = Harness(CHAIN)
    h.at(10.0)
    h.ack("src/0", position=5)
    effects = h.ack("mid/0", inputs={"src_mid": 6})
    assert names(effects)[0] == "CheckpointAborted"
    (end,) = only(EndJob, effects)
    assert end.status == "FAILED"
    assert end.cause is not None
    assert "mid/0" in end.cause
    assert "src/0" in end.cause
    assert not only(Release, h.effects)


def test_the_cut_of_parallel_producers_is_checked_per_producer() -> None:
    wide = graph(vertex("a", sources="a", parallelism=2), vertex("b", sinks="s"), edges="a>b")
    h = Harness(wide)
    h.at(10.0)
    h.ack("a/0", position=9)
    h.ack("a/1", position=2)
    assert only(EndJob, h.ack("b/0", inputs={SubtaskId("a_b/0"): 9, SubtaskId("a_b/1"): 3}))


def test_an_expired_checkpoint_counts_as_a_failure() -> None:
    h = Harness(timeout=60.0)
    h.at(10.0)
    assert h.c.next_deadline(10.0) == 70.0
    effects = h.at(70.0)
    assert names(effects) == ["CheckpointAborted", "StatusChanged", "EndJob"]
    assert events(CheckpointAborted, effects)[0].reason == "CHECKPOINT_EXPIRED"
    assert only(EndJob, effects)[0].status == "RESTARTING"


def test_failures_in_a_row_are_tolerated_to_the_limit_and_reset_by_success() -> None:
    h = Harness(tolerable_failed=1)
    for round_, (answer, counted) in enumerate([("fail", 1), ("ack", 0), ("fail", 1)], start=1):
        h.at(10.0 * round_)
        if answer == "ack":
            h.ack()
            h.released()
        else:
            h.decline("IO_EXCEPTION")
        assert h.c.failures_in_a_row == counted
    h.at(40.0)
    assert only(EndJob, h.decline("IO_EXCEPTION"))[0].status == "RESTARTING"


@pytest.mark.parametrize("reason", [r for r in Reason if not r.counted])
def test_scheduling_reasons_do_not_count_as_failures(reason: Reason) -> None:
    tracker = FailureTracker(tolerable=0)
    tracker.failed(1, reason)
    assert (tracker.in_a_row, tracker.exceeded) == (0, False)


def test_counted_failure_reasons_are_those_of_flink() -> None:
    assert {r.name for r in Reason if r.counted} == {
        "IO_EXCEPTION",
        "CHECKPOINT_EXPIRED",
        "FINALIZE_CHECKPOINT_FAILURE",
    }


def test_each_reason_to_decline_counts_as_a_failure() -> None:
    assert all(Reason[name].counted for name in typing.get_args(DeclineReason))


@pytest.mark.parametrize(("terminal", "status"), [(False, "RESTARTING"), (True, "FAILED")])
def test_a_failed_subtask_aborts_the_pending_checkpoint_and_ends_the_run(terminal: bool, status: str) -> None:
    h = Harness()
    h.at(10.0)
    effects = h.handle(SubtaskFailed(1, V0, A, "no such column", terminal))
    assert names(effects) == ["CheckpointAborted", "StatusChanged", "EndJob"]
    (end,) = only(EndJob, effects)
    assert (end.status, "no such column" in (end.cause or "")) == (status, True)
    assert h.c.next_deadline(h.now) is None
    assert h.running() == []


def test_r20_a_subtask_that_finishes_without_its_barrier_is_replanned() -> None:
    h = Harness(CHAIN)
    assert [b.subtask for b in only(TriggerBarrier, h.at(10.0))] == ["src/0"]
    h.end_of_data("src/0")
    assert only(TriggerBarrier, h.done("src/0")) == [TriggerBarrier(1, SubtaskId("mid/0"), A, 1)]
    (completed,) = events(CheckpointCompleted, h.ack("mid/0"))
    assert completed.operators == {"src": "finished", "live": "running", "mid": "running", "sink": "running"}


def test_r20_a_subtask_that_finished_after_its_barrier_counts_as_running() -> None:
    h = Harness(CHAIN)
    h.at(10.0)
    h.ack("src/0")
    h.end_of_data("src/0")
    assert only(TriggerBarrier, h.done("src/0")) == []
    (completed,) = events(CheckpointCompleted, h.ack("mid/0"))
    assert completed.operators["src"] == "running"


def test_a_finished_subtask_is_in_the_completed_checkpoint_without_command() -> None:
    h = Harness(CHAIN, restored=RestoredState(finished=frozenset({SRC0})))
    assert [b.subtask for b in only(TriggerBarrier, h.at(10.0))] == ["mid/0"]
    effects = h.ack("mid/0")
    (completed,) = events(CheckpointCompleted, effects)
    assert completed.subtasks[SRC0].finished_on_restore
    assert completed.operators["src"] == "finished"
    assert only(NotifyCompleted, effects) == [NotifyCompleted(1)]


def test_an_operator_that_ran_to_its_end_is_not_finished() -> None:
    """A restore from the final checkpoint itself starts the operator again, as in Flink."""
    h = Harness()
    h.end_of_data()
    (completed,) = events(CheckpointCompleted, h.ack(finished=True))
    assert completed.operators == {"live": "running", "v": "running", "sink": "running"}


def test_operator_states_are_running_partially_finished_or_finished() -> None:
    """testFulfillFinishedStates"""
    three = graph(
        vertex("a", sources="a", bounded="a"),
        vertex("b", sources="b", bounded="b", parallelism=2),
        vertex("c", sources="c", sinks="s"),
    )
    h = Harness(three, restored=RestoredState(finished=frozenset({SubtaskId("a/0"), SubtaskId("b/1")})))
    h.at(10.0)
    h.ack("b/0")
    (completed,) = events(CheckpointCompleted, h.ack("c/0"))
    assert completed.operators == {
        "a": "finished",
        "b": "partially finished",
        "c": "running",
        "s": "running",
    }


def test_in_batch_mode_there_is_one_checkpoint_when_all_are_at_end_of_data() -> None:
    batch = graph(vertex("a", sources="a", bounded="a", sinks="x"), vertex("b", sinks="y"), edges="a>b")
    h = Harness(batch, mode="batch", running=False)
    h.running("a/0")
    assert h.at(1000.0) == []
    assert not events(CheckpointTriggered, h.end_of_data("a/0"))
    assert not events(CheckpointTriggered, h.running("b/0"))
    (triggered,) = events(CheckpointTriggered, h.end_of_data("b/0"))
    assert triggered.kind == "final"


def test_checkpoints_wait_when_releases_cannot_keep_up() -> None:
    h = Harness()
    for n in range(1, MAX_UNRELEASED + 1):
        h.at(10.0 * n)
        h.ack()
    assert h.at(10_000.0) == []
    assert names(h.released()) == ["CheckpointReleased", "Release", "CheckpointTriggered", "TriggerBarrier"]


def test_running_is_journaled_once_when_all_subtasks_run() -> None:
    h = Harness(CHAIN)
    h.running("src/0")
    assert [e.status for e in events(StatusChanged, h.effects)] == ["RUNNING"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("interval", 0.0),
        ("interval", float("nan")),
        ("min_pause", -1.0),
        ("timeout", float("inf")),
        ("tolerable_failed", -1),
        ("tolerable_failed", 0.5),
        ("interval", "30s"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=option):
        CheckpointOptions(**{option: value})  # type: ignore[arg-type]
