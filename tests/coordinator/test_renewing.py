"""Subtasks that continue in a new attempt, without a failure, because a log that they read has grown (R7, R20)."""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.protocol.commands import (
    DeploySubtask,
    PauseSubtask,
    RestartSubtask,
    ResumeSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.coordinator.protocol.effects import Effect, EndJob
from airflow_provider_ckpt.coordinator.protocol.reports import SourceLogGrown, SubtaskPaused
from airflow_provider_ckpt.journal.events import CheckpointAborted, CheckpointTriggered, SubtaskRestarting
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.pause_reason import ReplaceAttempt
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from tests.coordinator.harness import CHAIN, MID0, ONE, V0, A, Harness, events, names, only

PAUSE = PauseSubtask(1, MID0, A, ReplaceAttempt())
RESTART = RestartSubtask(1, MID0, A, 0.0, VertexPlan(1, ()))


def grown(h: Harness, subtask: str = "mid/0", attempt: AttemptId | None = None) -> list[Effect]:
    return h.handle(SourceLogGrown(**h.world(subtask, attempt)))


def stands(h: Harness, subtask: str = "mid/0") -> list[Effect]:
    return h.handle(SubtaskPaused(**h.world(subtask), reason=ReplaceAttempt(), batch_id=30))


def test_r7_it_stands_still_behind_a_batch_and_begins_anew_without_a_failure() -> None:
    h = Harness(CHAIN)
    assert grown(h) == [PAUSE]
    assert stands(h) == [RESTART]
    assert h.c.subtask_statuses()[MID0].value == "restarting"
    assert only(DeploySubtask, h.next_attempt("mid/0"))[0].attempt == h.attempts[MID0]
    h.running("mid/0", plan=1)
    assert (h.c.failures_in_a_row, h.c.pauses) == (0, ())
    assert not events(SubtaskRestarting, h.effects) + events(CheckpointAborted, h.effects)
    assert events(CheckpointTriggered, h.at(10.0))


def test_r15_a_checkpoint_that_is_pending_comes_first_and_the_next_one_waits_for_the_next_attempt() -> None:
    h = Harness(CHAIN)
    h.at(10.0)
    assert grown(h) == []
    h.ack("src/0")
    assert PAUSE in h.ack("mid/0")
    assert only(TriggerBarrier, h.at(20.0)) == []
    stands(h)
    assert only(TriggerBarrier, h.at(30.0)) == []
    h.next_attempt("mid/0")
    assert only(TriggerBarrier, h.running("mid/0", plan=1))


def test_told_twice_it_begins_anew_once_and_by_the_next_attempt_again() -> None:
    h = Harness(CHAIN)
    grown(h)
    assert grown(h) == []
    stands(h)
    assert grown(h) == []  # the restart was already under way
    h.next_attempt("mid/0")
    assert grown(h, attempt=A) == []
    assert PAUSE not in h.running("mid/0", plan=1)
    assert h.c.dropped_messages == {"stale": 1, "attempt": 1}
    assert only(PauseSubtask, grown(h)) == [PauseSubtask(1, MID0, h.attempts[MID0], ReplaceAttempt())]


def test_r22_one_that_fails_on_the_way_begins_again_as_whoever_fails_does() -> None:
    h = Harness(CHAIN, restart_attempts=1)
    grown(h)
    h.fail("mid/0")
    assert stands(h) == []
    h.next_attempt("mid/0")
    assert only(PauseSubtask, h.running("mid/0")) == []
    assert len(events(SubtaskRestarting, h.effects)) == 1


def test_one_whose_next_attempt_does_not_come_ends_the_run() -> None:
    h = Harness(CHAIN, timeout=60.0)
    grown(h)
    stands(h)
    assert only(EndJob, h.at(59.0)) == []
    assert [one.status for one in only(EndJob, h.at(60.0))] == ["RESTARTING"]


def test_one_that_came_to_its_end_meanwhile_has_nothing_to_begin() -> None:
    h = Harness(ONE)
    h.at(10.0)
    grown(h, "v/0")
    assert only(PauseSubtask, h.end_of_data()) == []
    assert only(PauseSubtask, h.ack()) == []


def test_r21_a_change_that_is_asked_for_comes_first() -> None:
    """The current attempt prepares the change. A restart would abort the change together with the attempt."""
    h = Harness(CHAIN)
    grown(h)
    h.handle(ReconfigureRequest({"mid": VertexSettings(pool_weight=3)}, name="r1"))
    assert only(ResumeSubtask, stands(h)) == [ResumeSubtask(1, MID0, A, VertexPlan(1, ()))]
    h.running("mid/0")
    assert grown(h) == []
    assert h.answers("r1") == ["accepted"]


def test_a_stop_waits_for_no_log() -> None:
    h = Harness(ONE)
    h.at(10.0)
    grown(h, "v/0")
    h.request("stop")
    assert "PauseSubtask" not in names(h.ack())


def test_a_subtask_that_stands_still_is_not_sent_on_before_its_next_attempt() -> None:
    h = Harness(ONE)
    grown(h, "v/0")
    assert only(ResumeSubtask, stands(h, "v/0")) == []
    assert only(ResumeSubtask, h.next_attempt()) == []
    assert V0 in [one.subtask for one in only(DeploySubtask, h.effects)]
