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


def report_log_grown(h: Harness, subtask: str = "mid/0", attempt: AttemptId | None = None) -> list[Effect]:
    return h.handle(SourceLogGrown(**h.world(subtask, attempt)))


def report_paused(h: Harness, subtask: str = "mid/0") -> list[Effect]:
    return h.handle(SubtaskPaused(**h.world(subtask), reason=ReplaceAttempt(), batch_id=30))


def test_r7_a_query_whose_source_log_grew_restarts_without_a_failure() -> None:
    h = Harness(CHAIN)
    assert report_log_grown(h) == [PAUSE]
    assert report_paused(h) == [RESTART]
    assert h.c.subtask_statuses()[MID0].value == "restarting"
    assert only(DeploySubtask, h.next_attempt("mid/0"))[0].attempt == h.attempts[MID0]
    h.running("mid/0", plan=1)
    assert (h.c.failures_in_a_row, h.c.pauses) == (0, ())
    assert not events(SubtaskRestarting, h.effects) + events(CheckpointAborted, h.effects)
    assert events(CheckpointTriggered, h.at(10.0))


def test_r15_a_restart_waits_for_the_pending_checkpoint_and_holds_the_next() -> None:
    h = Harness(CHAIN)
    h.at(10.0)
    assert report_log_grown(h) == []
    h.ack("src/0")
    assert PAUSE in h.ack("mid/0")
    assert only(TriggerBarrier, h.at(20.0)) == []
    report_paused(h)
    assert only(TriggerBarrier, h.at(30.0)) == []
    h.next_attempt("mid/0")
    assert only(TriggerBarrier, h.running("mid/0", plan=1))


def test_a_repeated_report_of_growth_restarts_a_query_once() -> None:
    h = Harness(CHAIN)
    report_log_grown(h)
    assert report_log_grown(h) == []
    report_paused(h)
    assert report_log_grown(h) == []  # the restart was already under way
    h.next_attempt("mid/0")
    assert report_log_grown(h, attempt=A) == []
    assert PAUSE not in h.running("mid/0", plan=1)
    assert h.c.dropped_messages == {"stale": 1, "attempt": 1}
    assert only(PauseSubtask, report_log_grown(h)) == [PauseSubtask(1, MID0, h.attempts[MID0], ReplaceAttempt())]


def test_r22_a_failure_before_the_pause_restarts_like_any_failure() -> None:
    h = Harness(CHAIN, restart_attempts=1)
    report_log_grown(h)
    h.fail("mid/0")
    assert report_paused(h) == []
    h.next_attempt("mid/0")
    assert only(PauseSubtask, h.running("mid/0")) == []
    assert len(events(SubtaskRestarting, h.effects)) == 1


def test_a_restart_without_a_next_attempt_ends_the_run() -> None:
    h = Harness(CHAIN, timeout=60.0)
    report_log_grown(h)
    report_paused(h)
    assert only(EndJob, h.at(59.0)) == []
    assert [end.status for end in only(EndJob, h.at(60.0))] == ["RESTARTING"]


def test_a_subtask_at_its_end_is_not_restarted() -> None:
    h = Harness(ONE)
    h.at(10.0)
    report_log_grown(h, "v/0")
    assert only(PauseSubtask, h.end_of_data()) == []
    assert only(PauseSubtask, h.ack()) == []


def test_r21_a_requested_change_cancels_the_restart() -> None:
    """The current attempt prepares the change. A restart would abort the change together with the attempt."""
    h = Harness(CHAIN)
    report_log_grown(h)
    h.handle(ReconfigureRequest({"mid": VertexSettings(pool_weight=3)}, name="r1"))
    assert only(ResumeSubtask, report_paused(h)) == [ResumeSubtask(1, MID0, A, VertexPlan(1, ()))]
    h.running("mid/0")
    assert report_log_grown(h) == []
    assert h.answers("r1") == ["accepted"]


def test_a_stop_does_not_wait_for_a_restart() -> None:
    h = Harness(ONE)
    h.at(10.0)
    report_log_grown(h, "v/0")
    h.request("stop")
    assert "PauseSubtask" not in names(h.ack())


def test_a_paused_subtask_is_not_resumed_before_its_next_attempt() -> None:
    h = Harness(ONE)
    report_log_grown(h, "v/0")
    assert only(ResumeSubtask, report_paused(h, "v/0")) == []
    assert only(ResumeSubtask, h.next_attempt()) == []
    assert V0 in [deploy.subtask for deploy in only(DeploySubtask, h.effects)]
