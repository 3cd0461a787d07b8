"""Subtasks that continue in their next attempt while the others run (R15, R22)."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.coordinator.protocol.commands import (
    DeploySubtask,
    DrainSubtask,
    FinishSubtask,
    PauseSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.coordinator.protocol.effects import EndJob
from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskOpened, SubtaskPaused
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.journal.events import CheckpointAborted, CheckpointCompleted, CheckpointTriggered
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.pause_reason import DropSource
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from tests.coordinator.harness import CHAIN, MID0, SRC0, V0, A, Harness, events, graph, names, only, vertex

B = A.next("b")
MIXED = graph(vertex("v", sources="h live", bounded="h", sinks="sink"))


def test_r22_a_deployment_command_names_the_given_attempt() -> None:
    h = Harness(CHAIN, running=False)
    assert only(DeploySubtask, h.effects) == [
        DeploySubtask(1, SRC0, A, VertexPlan(0, ())),
        DeploySubtask(1, MID0, A, VertexPlan(0, ())),
    ]


def test_r22_reports_of_an_unknown_attempt_are_dropped() -> None:
    h = Harness(running=False)
    assert h.running(attempt=AttemptId(1, 0, "other")) == []
    assert h.running(attempt=B) == []
    assert h.c.dropped_messages == {"attempt": 2}


def test_r15_a_new_attempt_aborts_the_pending_checkpoint_without_counting_it() -> None:
    h = Harness(CHAIN, tolerable_failed=0)
    h.at(10.0)
    h.ack("src/0")
    effects = h.next_attempt("mid/0")
    assert names(effects) == ["CheckpointAborted", "DeploySubtask"]
    assert events(CheckpointAborted, effects)[0].reason == "JOB_FAILOVER_REGION"
    assert only(DeploySubtask, effects) == [DeploySubtask(1, MID0, B, VertexPlan(0, ()))]
    assert h.c.failures_in_a_row == 0
    assert (h.c.status, h.c.subtask_statuses()[MID0].value) == ("RUNNING", "starting")
    assert h.at(1000.0) == []
    assert only(TriggerBarrier, h.running("mid/0")) == [TriggerBarrier(1, SRC0, A, 2)]
    h.ack("src/0")
    (completed,) = events(CheckpointCompleted, h.ack("mid/0"))
    assert completed.checkpoint == 2


def test_acknowledgements_of_the_previous_attempt_do_not_count_later() -> None:
    h = Harness(CHAIN)
    h.at(10.0)
    h.ack("mid/0")
    h.next_attempt("mid/0")
    h.running("mid/0")
    h.at(30.0)
    assert h.c.pending is not None
    assert h.c.pending.remaining == ("src/0", "mid/0")


@pytest.mark.parametrize(
    "attempt",
    [A, AttemptId(1, 0, "z"), AttemptId(2, 0, "a"), AttemptId(0, 9, "a")],
    ids=["the same", "of the same number", "of a later epoch", "of an earlier epoch"],
)
def test_r22_only_a_later_attempt_of_the_same_epoch_replaces_an_attempt(attempt: AttemptId) -> None:
    h = Harness()
    h.at(10.0)
    assert h.handle(SubtaskOpened(1, V0, attempt)) == []
    assert h.c.dropped_messages == {"attempt": 1}
    assert events(CheckpointCompleted, h.ack())


def test_r22_attempts_of_finished_foreign_or_unknown_subtasks_are_dropped() -> None:
    h = Harness(CHAIN, restored=RestoredState(finished=frozenset({SRC0})))
    for message in (
        SubtaskOpened(1, SRC0, B),
        SubtaskOpened(2, MID0, B),
        SubtaskOpened(1, SubtaskId("none/0"), B),
    ):
        assert h.handle(message) == []
    assert h.c.dropped_messages == {"stale": 1, "epoch": 1, "subtask": 1}


def test_a_pause_that_an_attempt_did_not_reach_is_requested_of_the_next() -> None:
    """The next attempt has not received the command and runs with the source, so the coordinator sends it again."""
    h = Harness(MIXED)
    h.source_at_end("h")
    assert only(PauseSubtask, h.ack()) == [PauseSubtask(1, V0, A, DropSource("h"))]
    assert only(DeploySubtask, h.next_attempt()) == [DeploySubtask(1, V0, B, VertexPlan(0, ()))]
    assert h.handle(SubtaskPaused(1, V0, A, DropSource("h"), 3)) == []
    assert only(PauseSubtask, h.running()) == [PauseSubtask(1, V0, B, DropSource("h"))]


def test_r20_the_next_attempt_is_deployed_with_a_journaled_change() -> None:
    """The previous attempt died after the journal had recorded the drop of its source.

    Its successor is deployed without the source.
    """
    h = Harness(MIXED)
    h.source_at_end("h")
    h.ack()
    h.handle(SubtaskPaused(1, V0, A, DropSource("h"), 3))
    assert only(DeploySubtask, h.next_attempt()) == [DeploySubtask(1, V0, B, VertexPlan(1, ("h",)))]
    assert h.running(plan=0) == []
    assert h.c.dropped_messages == {"stale": 1}
    assert not only(PauseSubtask, h.running(plan=1))
    assert not h.c.pauses
    h.source_at_end("h")
    assert len(only(PauseSubtask, h.effects)) == 1


def test_the_next_attempt_leaves_out_sources_that_its_vertex_dropped() -> None:
    """Nor does the coordinator pause it again for that source."""
    h = Harness(graph(vertex("v", sources="h live", bounded="h", sinks="sink", parallelism=2)))
    for subtask in ("v/0", "v/1"):
        h.source_at_end("h", subtask)
    h.ack("v/0")
    h.ack("v/1")
    h.handle(SubtaskPaused(1, V0, A, DropSource("h"), 3))
    assert only(DeploySubtask, h.next_attempt("v/1")) == [DeploySubtask(1, SubtaskId("v/1"), B, VertexPlan(0, ("h",)))]
    h.running("v/1", plan=0)
    h.running("v/0", plan=1)
    assert [pause.subtask for pause in only(PauseSubtask, h.effects)] == ["v/0"]


def test_r12_the_next_attempt_gets_the_drain_command() -> None:
    h = Harness()
    assert only(DrainSubtask, h.request("drain")) == [DrainSubtask(1, V0, A)]
    assert not only(DrainSubtask, h.next_attempt())
    assert only(DrainSubtask, h.running()) == [DrainSubtask(1, V0, B)]


def test_r16_an_attempt_restarted_at_end_of_data_finishes_after_its_release() -> None:
    h = Harness()
    h.end_of_data()
    h.next_attempt()
    assert not only(FinishSubtask, h.effects)
    h.now = 20.0
    assert events(CheckpointTriggered, h.end_of_data())
    h.ack(finished=True)
    assert FinishSubtask(1, V0, B) in h.released()
    assert only(EndJob, h.done())[0].status == "FINISHED"


def test_the_next_attempt_gets_an_unfulfilled_finish_command() -> None:
    h = Harness(CHAIN)
    assert FinishSubtask(1, SRC0, A) in h.end_of_data("src/0")
    h.next_attempt("src/0")
    assert FinishSubtask(1, SRC0, B) in h.end_of_data("src/0")


def test_a_stop_takes_its_savepoint_when_the_subtask_runs_again() -> None:
    h = Harness(tolerable_failed=0)
    h.request("stop", "r")
    h.next_attempt()
    h.now = 5.0
    (triggered,) = events(CheckpointTriggered, h.running())
    assert (triggered.kind, triggered.checkpoint) == ("savepoint", 2)
    h.ack()
    assert only(EndJob, h.released())[0].status == "STOPPED"


def test_a_batch_attempt_is_deployed_with_a_slot_and_complete_inputs() -> None:
    h = Harness(CHAIN, running=False, mode="batch")
    assert [deploy.subtask for deploy in only(DeploySubtask, h.effects)] == ["src/0"]
    assert not only(DeploySubtask, h.next_attempt("mid/0"))
    assert only(DeploySubtask, h.next_attempt("src/0")) == [DeploySubtask(1, SRC0, B, VertexPlan(0, ()))]
    h.running("src/0")
    assert only(DeploySubtask, h.end_of_data("src/0")) == [DeploySubtask(1, MID0, B, VertexPlan(0, ()))]


def test_an_ending_job_deploys_no_attempt() -> None:
    h = Harness(CHAIN)
    h.at(10.0)
    h.ack("src/0")
    h.ack("mid/0")
    h.fail("src/0", terminal=True)  # the run still waits for the release
    assert not only(DeploySubtask, h.next_attempt("mid/0"))
