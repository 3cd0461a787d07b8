"""Answers of a stop. STOPPED means a savepoint that is completed and released, and nothing else.

As in Flink's ``StopWithSavepoint``, the job continues if no savepoint can be taken. A failure on the way makes the job
fail over. The sender of the request is notified in both cases. A stop that ``leaves`` (``stop_at`` or a signal) has no
job to return to, so the run ends RESTARTING.
"""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import CheckpointFailureReason
from airflow_provider_ckpt.coordinator.protocol.commands import (
    DrainSubtask,
    FinishSubtask,
    PauseSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.coordinator.protocol.effects import Effect, EndJob
from airflow_provider_ckpt.coordinator.protocol.reports import BarrierDeclined
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.journal.events import CheckpointTriggered, StatusChanged
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.pause_reason import DropSource
from tests.coordinator.harness import CHAIN, MID0, A, Harness, events, graph, names, only, vertex

BOUNDED = graph(vertex("v", sources="h", bounded="h", sinks="sink"))
MIXED = graph(vertex("v", sources="h live", bounded="h", sinks="sink"))


def _end(effects: list[Effect]) -> tuple[str, str]:
    (end,) = only(EndJob, effects)
    return end.status, end.cause or ""


# -- no savepoint can be taken


def test_a_stop_without_a_savepoint_in_time_fails_and_the_job_continues() -> None:
    h = Harness(timeout=60.0)
    h.at(10.0)
    h.ack()
    h.released()
    h.request("stop", "r1")
    effects = h.at(70.0)
    assert names(effects)[:2] == ["CheckpointAborted", "RequestAnswered"]
    assert h.answers("r1") == [
        "accepted",
        "failed: the stop did not take place: no savepoint within 60 s; last completed checkpoint: 1; "
        "the job continues",
    ]
    assert not h.c.stopping
    assert h.c.status == "RUNNING"
    assert [e.kind for e in events(CheckpointTriggered, effects)] == ["checkpoint"]
    h.ack()
    h.released()
    assert not only(EndJob, h.effects)


def test_a_leaving_stop_without_a_savepoint_ends_the_run_restarting() -> None:
    h = Harness(timeout=60.0)
    h.request("stop", exit_if_it_fails=True)
    status, cause = _end(h.at(60.0))
    assert status == "RESTARTING"
    assert cause == "the stop did not take place: no savepoint within 60 s; last completed checkpoint: none"


def test_too_many_failed_savepoints_fail_the_stop_and_not_the_job() -> None:
    """CheckpointFailureManager: a failed savepoint does not count against the job's tolerable failures."""
    h = Harness(tolerable_failed=1, interval=1e6)
    h.request("stop", "r1")
    assert not h.decline("IO_EXCEPTION")[1:]
    h.at(1.0)
    h.handle(BarrierDeclined(**h.world("v/0"), checkpoint=2, reason="IO_EXCEPTION", detail="disk full"))
    assert "2 savepoints failed (1 tolerated), last: the barrier could not be written: disk full" in h.answers("r1")[1]
    assert h.c.failures_in_a_row == 0
    assert not h.c.is_over


def test_a_savepoint_aborted_by_scheduling_is_retried() -> None:
    h = Harness()
    h.request("stop", "r1")
    for now in (1.0, 2.0, 3.0):
        h.c._decider.failed(CheckpointFailureReason.ALL_TASKS_FINISHED, h.now)
        h.at(now)
    h.ack()
    assert _end(h.released()) == ("STOPPED", "")


def test_a_stop_after_a_failed_stop_takes_its_own_savepoint() -> None:
    h = Harness()
    h.request("stop", "r1")
    h.decline("IO_EXCEPTION")
    h.now = 5.0
    h.request("stop", "r2")
    h.ack()
    h.released()
    assert h.answers("r1")[1].startswith("failed: ")
    assert h.answers("r2") == ["accepted", "completed: savepoint 2 is released"]


def test_a_second_stop_shares_the_answer_and_may_make_the_job_leave() -> None:
    h = Harness()
    h.request("stop", "r1")
    h.request("stop", "r2", exit_if_it_fails=True)
    assert _end(h.decline("IO_EXCEPTION"))[0] == "RESTARTING"
    assert h.answers("r1")[0] == "accepted"
    assert h.answers("r2")[0] == "already stopping"
    assert h.answers("r1")[1] == h.answers("r2")[1]


def test_after_a_failed_stop_ended_sources_are_dropped_again() -> None:
    h = Harness(MIXED)
    h.request("stop", "r1")
    assert not only(PauseSubtask, h.source_at_end("h"))
    assert only(PauseSubtask, h.decline("IO_EXCEPTION")) == [PauseSubtask(1, SubtaskId("v/0"), A, DropSource("h"))]


def test_after_a_failed_stop_subtasks_are_finished_again() -> None:
    two = graph(vertex("a", sources="a", bounded="a", sinks="s"), vertex("b", sources="b", sinks="t"))
    h = Harness(two)
    h.end_of_data("a/0")
    h.request("stop", "r1")
    h.ack("a/0", finished=True)
    h.ack("b/0")
    assert not only(FinishSubtask, h.released())
    h.decline("IO_EXCEPTION", SubtaskId("b/0"))
    assert only(FinishSubtask, h.effects) == [FinishSubtask(1, SubtaskId("a/0"), A)]


# -- not all subtasks run


def test_a_stop_of_a_starting_job_waits_until_all_subtasks_run() -> None:
    h = Harness(CHAIN, running=False)
    h.request("stop", "r1")
    h.running("src/0")
    assert not events(CheckpointTriggered, h.effects)
    assert [e.kind for e in events(CheckpointTriggered, h.running("mid/0"))] == ["savepoint"]
    h.ack("src/0")
    h.ack("mid/0")
    assert _end(h.released()) == ("STOPPED", "")


def test_a_stop_of_a_job_that_does_not_start_in_time_names_missing_subtasks() -> None:
    """Flink refuses it: not all required tasks are currently running."""
    h = Harness(CHAIN, running=False, timeout=60.0)
    h.request("stop", "r1")
    h.running("src/0")
    h.at(60.0)
    assert "no savepoint within 60 s: not all subtasks that must acknowledge are running (mid/0)" in h.answers("r1")[1]
    assert not h.c.is_over
    assert names(h.running("mid/0")) == ["StatusChanged"]


def test_a_stop_in_a_planned_restart_waits_for_the_query() -> None:
    h = Harness(MIXED)
    h.source_at_end("h")
    h.ack()
    h.released()
    assert h.request("stop", "r1")[1:] == []
    h.paused("v/0", DropSource("h"))
    assert [e.kind for e in events(CheckpointTriggered, h.running())] == ["savepoint"]


# -- failures on the way


def test_a_subtask_failure_before_the_savepoint_fails_the_stop() -> None:
    h = Harness()
    h.request("stop", "r1")
    status, cause = _end(h.fail())
    assert status == "RESTARTING"
    assert cause == "the stop did not take place: v/0: boom; last completed checkpoint: none"
    assert h.answers("r1") == ["accepted", f"failed: {cause}"]


def test_a_failure_after_the_savepoint_fails_the_stop_and_keeps_the_release() -> None:
    """StopWithSavepointStoppingException: the savepoint exists, but the job did not stop on it."""
    h = Harness()
    h.request("stop", "r1")
    h.ack()
    assert not only(EndJob, h.fail())
    effects = h.released()
    assert names(effects) == ["CheckpointReleased", "RequestAnswered", "StatusChanged", "EndJob"]
    status, cause = _end(effects)
    assert status == "RESTARTING"
    assert cause.startswith("savepoint 1 was taken, but the job failed before it had stopped: v/0: boom")


def test_a_terminal_failure_during_a_stop_is_terminal() -> None:
    h = Harness()
    h.request("stop")
    assert _end(h.fail(terminal=True))[0] == "FAILED"


@pytest.mark.parametrize("terminal", [False, True])
def test_a_savepoint_that_cannot_be_released_fails_the_stop(terminal: bool) -> None:
    h = Harness()
    h.request("stop", "r1")
    h.ack()
    while h.now < 400.0:
        effects = h.release_failed(terminal=terminal)
        if h.c.is_over:
            break
        deadline = h.c.next_deadline(h.now)
        assert deadline is not None
        h.at(deadline)
    status, cause = _end(effects)
    assert status == ("FAILED" if terminal else "RESTARTING")
    assert cause.startswith("savepoint 1 was taken, but")
    assert "release of checkpoint 1 in 'sink' failed" in cause
    assert h.answers("r1")[1] == f"failed: {cause}"


def test_a_checkpoint_pending_before_the_stop_counts_against_the_job() -> None:
    h = Harness()
    h.at(10.0)
    h.request("stop", "r1")
    status, cause = _end(h.decline("IO_EXCEPTION"))
    assert status == "RESTARTING"
    assert "the stop did not take place: 1 checkpoint failed in a row" in cause


def test_a_final_checkpoint_aborted_with_a_stop_does_not_count() -> None:
    """The stop comes while a subtask begins again, and the subtask then reaches its end of data.

    The final checkpoint is given up when the time of the stop is over. The next failure of a subtask ended the run.
    """
    h = Harness(BOUNDED, timeout=60.0, restart_attempts=5)
    h.fail()
    h.at(5.0)
    h.request("stop", "r1")
    h.next_attempt()
    h.at(10.0)
    assert [trigger.kind for trigger in events(CheckpointTriggered, h.end_of_data())] == ["final"]
    effects = h.at(65.0)
    assert names(effects)[:2] == ["CheckpointAborted", "RequestAnswered"]
    assert h.answers("r1")[1].endswith("; the job continues")
    assert h.c.failures_in_a_row == 0
    h.fail()
    assert not only(EndJob, h.effects)
    h.next_attempt()
    h.end_of_data()
    h.ack(finished=True)
    h.released()
    assert _end(h.done()) == ("FINISHED", "")


# -- batch


def test_a_stop_of_a_batch_job_is_refused() -> None:
    h = Harness(BOUNDED, mode="batch")
    h.request("stop", "r1")
    assert h.answers("r1")[0].startswith("refused: a job in batch mode takes no savepoint")
    assert not h.c.is_over
    assert not h.c.stopping


def test_a_leaving_stop_of_a_batch_job_ends_restarting() -> None:
    h = Harness(BOUNDED, mode="batch")
    status, cause = _end(h.request("stop", "r1", exit_if_it_fails=True))
    assert status == "RESTARTING"
    assert "batch mode takes no savepoint" in cause
    assert h.answers("r1") == ["accepted", f"failed: {cause}"]


def test_a_stop_of_a_batch_job_at_its_end_lets_it_finish() -> None:
    h = Harness(BOUNDED, mode="batch")
    h.end_of_data()
    h.request("stop", "r1")
    h.ack(finished=True)
    h.released()
    assert _end(h.done()) == ("FINISHED", "")
    assert h.answers("r1") == ["accepted", "completed: the job has FINISHED"]


def test_in_batch_mode_every_unfinished_subtask_is_triggered() -> None:
    """No gate of a vertex passes a barrier on in batch mode. A vertex with a sink and a consumer used to hang
    forever."""
    depths = graph(
        vertex("a", sources="a", bounded="a", sinks="x"),
        vertex("b", sinks="y"),
        vertex("c"),
        vertex("d", sinks="z"),
        edges="a>b a>c b>d c>d",
    )
    h = Harness(depths, mode="batch")
    for name in ("a/0", "b/0", "c/0", "d/0"):
        h.end_of_data(name)
    assert [b.subtask for b in only(TriggerBarrier, h.effects)] == ["a/0", "b/0", "c/0", "d/0"]
    h.done("c/0")  # it has no sink, so it closes at once and writes no barrier
    for name in ("a/0", "b/0", "d/0"):
        h.ack(name, finished=True)
    assert [f.subtask for f in only(FinishSubtask, h.released())] == ["a/0", "b/0", "d/0"]


# -- drain


def test_a_drain_that_ends_is_answered_as_completed() -> None:
    h = Harness()
    h.request("drain", "r1")
    h.request("drain", "r2")
    h.end_of_data()
    h.ack(finished=True)
    h.released()
    h.done()
    assert h.answers("r1") == ["accepted", "completed: the job has FINISHED"]
    assert h.answers("r2") == ["already draining", "completed: the job has FINISHED"]


def test_a_failed_drain_ends_restarting_and_the_next_run_continues_it() -> None:
    h = Harness()
    h.request("drain", "r1")
    status, cause = _end(h.fail())
    assert status == "RESTARTING"
    assert h.answers("r1") == ["accepted", f"failed: {cause}; the next run continues the drain"]
    assert [e.status for e in events(StatusChanged, h.effects)] == ["RUNNING", "RESTARTING"]


def test_a_drain_continues_after_a_failed_stop() -> None:
    h = Harness(CHAIN, restored=RestoredState(finished=frozenset({SubtaskId("src/0")})), running=False)
    h.request("drain", "r1")
    h.request("stop", "r2")
    h.running("mid/0")
    assert not only(DrainSubtask, h.effects)
    h.decline("IO_EXCEPTION", MID0)
    assert only(DrainSubtask, h.effects) == [DrainSubtask(1, MID0, A)]
