"""Failed subtasks that restart alone, as Flink's failover region of one vertex, and failures that end the run."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.failover import MAX_DELAY, RESET_AFTER, Restart, RestartStrategy
from airflow_provider_ckpt.coordinator.protocol.commands import (
    DeploySubtask,
    DrainSubtask,
    FinishSubtask,
    RestartSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.coordinator.protocol.effects import Effect, EndJob
from airflow_provider_ckpt.coordinator.protocol.reports import (
    SourceAtEnd,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskFailed,
    SubtaskRunning,
)
from airflow_provider_ckpt.journal.events import (
    CheckpointAborted,
    CheckpointCompleted,
    SubtaskFinished,
    SubtaskRestarting,
)
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_request import StopRequest
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from tests.coordinator.harness import CHAIN, Harness, events, names, only

A = AttemptId(1, 0, "a")
B = A.next("b")
C = B.next("b")
PLAN = VertexPlan(0, ())
SRC, MID, V, W = map(SubtaskId, ("src/0", "mid/0", "v/0", "v/1"))


def chain(**options: Any) -> Harness:
    return Harness(CHAIN, restart_attempts=2, restart_delay=1.0, **options)


def end(h: Harness) -> tuple[str, str]:
    (ended,) = only(EndJob, h.effects)
    return ended.status, str(ended.cause)


# -- how often, and when


def test_restart_delays_grow_to_a_minute_until_attempts_run_out() -> None:
    strategy = RestartStrategy(20, 1.0)
    restarts = [strategy.failed(V, 10.0 * number) for number in range(21)]
    assert restarts[:4] == [Restart(1, 1.0), Restart(2, 1.5), Restart(3, 2.25), Restart(4, 3.375)]
    assert [restart.delay for restart in restarts[11:20] if restart is not None] == [MAX_DELAY] * 9
    assert restarts[20] is None


def test_a_first_restart_delay_above_a_minute_is_kept() -> None:
    strategy = RestartStrategy(3, 90.0)
    assert [restart.delay for restart in (strategy.failed(V, 0.0), strategy.failed(V, 1.0)) if restart] == [90.0, 90.0]


def test_failures_count_per_subtask_and_reset_after_a_quiet_hour() -> None:
    strategy = RestartStrategy(1, 1.0)
    assert strategy.failed(V, 0.0) == Restart(1, 1.0)
    assert strategy.failed(W, 0.0) == Restart(1, 1.0)
    assert strategy.failed(V, RESET_AFTER) is None
    assert strategy.failed(W, 1.0 + RESET_AFTER) == Restart(1, 1.0)


def test_without_attempts_no_subtask_restarts() -> None:
    assert RestartStrategy(0, 1.0).failed(V, 0.0) is None


# -- effects of the coordinator


def test_r15_a_failure_aborts_the_checkpoint_and_restarts_one_subtask() -> None:
    h = chain(tolerable_failed=0)
    h.at(10.0)
    h.ack(SRC)
    effects = h.fail(MID)
    assert names(effects) == ["CheckpointAborted", "SubtaskRestarting", "RestartSubtask"]
    assert events(CheckpointAborted, effects)[0].reason == "JOB_FAILOVER_REGION"
    assert events(SubtaskRestarting, effects) == [SubtaskRestarting(MID, str(A), "boom", 1, 2, 1.0, 10.0)]
    assert only(RestartSubtask, effects) == [RestartSubtask(1, MID, A, 1.0, PLAN)]
    assert (h.c.failures_in_a_row, h.c.status) == (0, "RUNNING")
    assert h.c.subtask_statuses()[MID].value == "restarting"
    assert h.at(100.0) == []
    assert only(DeploySubtask, h.next_attempt(MID)) == [DeploySubtask(1, MID, B, PLAN)]
    assert only(TriggerBarrier, h.running(MID)) == [TriggerBarrier(1, SRC, A, 2)]
    h.ack(SRC)
    assert events(CheckpointCompleted, h.ack(MID))


@pytest.mark.parametrize(
    "message",
    [
        SubtaskFailed(1, MID, A, "once more"),
        SubtaskFailed(1, MID, A, "for good", terminal=True),
        SubtaskRunning(1, MID, A),
        SubtaskAtEndOfData(1, MID, A),
        SubtaskDone(1, MID, A),
        SourceAtEnd(1, MID, A, "live", 3),
    ],
    ids=lambda message: type(message).__name__,
)
def test_r22_later_reports_of_a_failed_attempt_are_dropped(message: SubtaskFailed | SubtaskRunning) -> None:
    h = chain()
    h.fail(MID)
    assert h.handle(message) == []
    assert h.c.dropped_messages == {"stale": 1}


def test_a_failure_is_first_if_it_causes_a_restart() -> None:
    h = chain()
    failed = SubtaskFailed(1, MID, A, "boom")
    assert h.c.has_effect(failed)
    h.handle(failed)
    assert not h.c.has_effect(failed)
    assert not h.c.has_effect(SubtaskFailed(2, MID, B, "of another epoch"))
    assert h.c.has_effect(SubtaskFailed(1, SRC, A, "of another subtask, which begins again by itself"))
    assert h.c.has_effect(SubtaskFailed(1, MID, B, "its next attempt came to nothing"))
    h.next_attempt(MID)
    assert not h.c.has_effect(failed)
    assert h.c.has_effect(SubtaskFailed(1, MID, B, "boom"))


def test_a_failure_in_an_ending_run_is_not_first() -> None:
    h = Harness(CHAIN)
    h.at(10.0)
    h.ack(SRC)
    h.ack(MID)
    h.fail(MID)
    assert only(EndJob, h.effects) == [], "the completed checkpoint is not released yet"
    assert not h.c.has_effect(SubtaskFailed(1, SRC, A, "boom"))
    h.released()
    assert end(h)[0] == "RESTARTING"
    assert not h.c.has_effect(SubtaskFailed(1, SRC, A, "boom"))


def test_a_next_attempt_that_does_not_open_counts_as_a_failure() -> None:
    h = chain()
    h.fail(MID)
    h.attempts[MID] = B
    assert only(RestartSubtask, h.fail(MID)) == [RestartSubtask(1, MID, B, 1.5, PLAN)]
    assert only(DeploySubtask, h.next_attempt(MID)) == [DeploySubtask(1, MID, C, PLAN)]


def test_one_failure_too_many_ends_the_run() -> None:
    h = chain()
    for _ in range(2):
        h.fail(MID)
        h.next_attempt(MID)
        h.running(MID)
    assert not only(EndJob, h.effects)
    h.fail(MID)
    assert end(h) == ("RESTARTING", "mid/0: boom (after 2 restarts in a row); last completed checkpoint: none")


def test_a_terminal_failure_ends_the_run_at_once() -> None:
    h = chain()
    h.fail(MID, terminal=True)
    assert end(h) == ("FAILED", "mid/0: boom; last completed checkpoint: none")


@pytest.mark.parametrize("why", ["driver_is_lost", "result_is_lost"])
def test_w6_a_lost_driver_or_result_ends_the_run_restarting(why: str) -> None:
    h = chain()
    lost: Any = {why: True}
    h.handle(SubtaskFailed(1, MID, A, "Spark is gone", **lost))
    assert end(h) == ("RESTARTING", "mid/0: Spark is gone; last completed checkpoint: none")


def test_a_failure_while_a_stop_waits_for_its_savepoint_ends_the_run() -> None:
    h = chain()
    h.request("stop", "r")
    h.fail(MID)
    assert end(h)[0] == "RESTARTING"
    assert h.answers("r")[-1].startswith("failed: the stop did not take place: mid/0: boom")


def test_a_drain_continues_with_the_next_attempt() -> None:
    h = chain()
    h.request("drain", "r")
    h.fail(MID)
    h.next_attempt(MID)
    assert only(DrainSubtask, h.running(MID)) == [DrainSubtask(1, MID, B)]


def test_a_next_attempt_that_never_begins_ends_the_run() -> None:
    """Spark may take forever to end the previous query."""
    h = chain(timeout=60.0)
    h.now = 5.0
    h.fail(MID)
    assert h.c.next_deadline(5.0) == 66.0
    h.at(65.9)
    assert not only(EndJob, h.effects)
    h.at(66.0)
    assert end(h)[0] == "RESTARTING"
    assert "mid/0: its next attempt has not begun within 60 s (the checkpoint timeout)" in end(h)[1]


def test_a_next_attempt_that_began_has_no_deadline() -> None:
    h = chain(timeout=60.0)
    h.fail(MID)
    h.next_attempt(MID)
    h.at(1000.0)
    assert not only(EndJob, h.effects)


def test_r16_a_failed_ended_subtask_finishes_by_its_next_attempts_release() -> None:
    h = chain()
    h.end_of_data(MID)
    h.ack(SRC)
    h.ack(MID, finished=True)
    h.fail(MID)
    h.released()
    assert not only(FinishSubtask, h.effects), "no attempt is there to get the command"
    h.next_attempt(MID)
    h.now = 5.0
    h.end_of_data(MID)
    h.ack(SRC)
    h.ack(MID, finished=True)
    assert FinishSubtask(1, MID, B) in h.released()


def test_a_restarted_subtask_with_a_closed_log_is_finished() -> None:
    """Its log has the end of partition, but the report was lost in the later failure."""
    h = chain()
    h.end_of_data(SRC)
    h.fail(SRC)
    h.next_attempt(SRC)
    assert events(SubtaskFinished, h.done(SRC))


def test_an_ending_run_restarts_no_subtask() -> None:
    h = chain()
    h.at(10.0)
    h.ack(SRC)
    h.ack(MID)
    h.fail(SRC, terminal=True)  # the run waits for the release
    assert not only(RestartSubtask, h.fail(MID))


# -- lost workers


def lose_worker(h: Harness, subtask: SubtaskId = MID) -> list[Effect]:
    return h.handle(SubtaskFailed(1, subtask, h.attempts[subtask], "its worker has left", worker_is_lost=True))


@pytest.mark.parametrize("attempts", [0, 2])
def test_w9_a_lost_worker_counts_as_no_failure(attempts: int) -> None:
    h = Harness(CHAIN, restart_attempts=attempts, restart_delay=1.0, tolerable_failed=0)
    for number in range(3):
        h.at(10.0 * (number + 1))
        effects = lose_worker(h)
        assert names(effects) == ["CheckpointAborted", "SubtaskRestarting", "RestartSubtask"]
        (restarting,) = events(SubtaskRestarting, effects)
        assert (restarting.number, restarting.delay) == (0, 0.0)
        h.next_attempt(MID)
        h.running(MID)
    assert h.c.status == "RUNNING"
    h.fail(MID)
    assert len(only(EndJob, h.effects)) == (0 if attempts else 1), "a failure of the subtask itself counts as usual"


def test_w9_the_run_ends_if_no_worker_comes_within_the_timeout() -> None:
    h = Harness(CHAIN, timeout=60.0)
    lose_worker(h)
    h.at(59.0)
    assert not h.c.is_over
    h.at(60.0)
    assert end(h)[0] == "RESTARTING"


def test_w9_a_lost_worker_ends_a_stop_that_waits_for_its_savepoint() -> None:
    h = Harness(CHAIN)
    h.handle(StopRequest())
    lose_worker(h)
    assert end(h)[0] == "RESTARTING"
