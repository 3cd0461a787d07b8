"""Final checkpoints, dropped sources, releases, stop, drain (StreamTaskFinalCheckpointsTest, issues).

Named cases of SYSTEMS 1.9 without a meaning here: testNotWaitingForAllRecordsProcessed... (a durable
partition need not wait for its consumers), testTriggering*WithFinishedChannels and
testWaitingForPendingCheckpointsOnFinished (the runner's). testOperatorSkipLifeCycleIfFinishedOnRestore:
finished operators are not started at all. ANCHORS D 3-7, 11, 13 are named below; D 8 (watermarks) is the
runner's; D 12 is in test_finished.py.
"""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.coordinator.protocol.commands import (
    DrainSubtask,
    FinishSubtask,
    PauseSubtask,
    ResumeSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.coordinator.protocol.effects import Effect, EndJob, Notice, Release
from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskFailed
from airflow_provider_ckpt.coordinator.state.pauses import Pause
from airflow_provider_ckpt.coordinator.state.release_state import MAX_BACKOFF
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.journal.events import (
    CheckpointCompleted,
    CheckpointReleased,
    CheckpointTriggered,
    RequestAnswered,
    SourceDropped,
    SourceEnded,
    StatusChanged,
)
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.pause_reason import DropSource
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from tests.coordinator.harness import CHAIN, MID0, V0, A, Harness, events, graph, names, only, vertex

BOUNDED = graph(vertex("v", sources="h", bounded="h", sinks="sink"))
MIXED = graph(vertex("v", sources="h live", bounded="h", sinks="sink"))


def _report_paused(h: Harness, uid: str) -> list[Effect]:
    return h.paused("v/0", DropSource(uid))


# -- final checkpoint


def test_a_job_that_ends_before_its_first_interval_takes_checkpoint_1() -> None:
    """testImmediateCheckpointing: the interval is long, but the final checkpoint starts at once."""
    h = Harness(BOUNDED, interval=1e9)
    assert names(h.end_of_data()) == ["SubtaskEndOfData", "CheckpointTriggered", "TriggerBarrier"]
    assert events(CheckpointTriggered, h.effects)[0] == CheckpointTriggered(1, 0.0, "final")
    assert not only(FinishSubtask, h.ack(finished=True))
    assert names(h.released()) == ["CheckpointReleased", "FinishSubtask"]
    assert names(h.done()) == ["SubtaskFinished", "StatusChanged", "EndJob"]
    assert only(EndJob, h.effects) == [EndJob(JobStatus.FINISHED)]


def test_a_subtask_without_a_sink_is_finished_at_once() -> None:
    h = Harness(CHAIN)
    effects = h.end_of_data("src/0")
    assert FinishSubtask(1, SubtaskId("src/0"), A) in effects


def test_siblings_of_a_finished_source_are_checkpointed() -> None:
    """streamling#62"""
    h = Harness(CHAIN)
    h.end_of_data("src/0")
    h.done("src/0")
    h.ack("mid/0")
    h.released()
    assert only(TriggerBarrier, h.at(20.0)) == [TriggerBarrier(1, MID0, A, 2)]


def test_the_final_checkpoint_need_not_be_the_first() -> None:
    """testWaitingForFinalCheckpointNotTheFirsNotifiedComplete"""
    h = Harness(BOUNDED, tolerable_failed=5)
    h.end_of_data()
    for now in (1.0, 2.0):
        h.decline("IO_EXCEPTION")
        h.at(now)
    assert h.c.last_triggered == 3
    h.ack()
    assert FinishSubtask(1, V0, A) in h.released()


def test_a_checkpoint_from_before_the_end_of_data_is_not_final() -> None:
    h = Harness(BOUNDED)
    h.at(10.0)
    h.end_of_data()
    effects = h.ack(finished=False)
    assert names(effects) == [
        "CheckpointCompleted", "NotifyCompleted", "Release", "CheckpointTriggered", "TriggerBarrier",
    ]  # fmt: skip
    assert not only(FinishSubtask, h.released(1))
    h.ack(finished=True)
    assert FinishSubtask(1, V0, A) in h.released(2)


def test_a_barrier_after_the_end_of_data_makes_the_checkpoint_final() -> None:
    h = Harness(BOUNDED)
    h.at(10.0)
    h.end_of_data()
    assert names(h.ack(finished=True)) == ["CheckpointCompleted", "NotifyCompleted", "Release"]
    assert FinishSubtask(1, V0, A) in h.released()


def test_after_a_crash_a_released_final_checkpoint_finishes_the_subtask() -> None:
    restored = RestoredState(
        last_triggered=4,
        last_completed=4,
        last_released=4,
        end_of_data=frozenset({V0}),
        snapshots={V0: Snapshot(9, 3, finished=True)},
    )
    h = Harness(BOUNDED, restored=restored, running=False)
    assert names(h.end_of_data()) == ["StatusChanged", "FinishSubtask"]


def test_a_job_whose_subtasks_are_all_finished_ends_when_it_starts() -> None:
    h = Harness(BOUNDED, restored=RestoredState(finished=frozenset({V0})))
    assert only(EndJob, h.effects) == [EndJob(JobStatus.FINISHED)]


# -- dropping an ended source


def test_r20_an_ended_source_is_checkpointed_at_once_and_then_dropped() -> None:
    h = Harness(MIXED)
    assert names(h.source_at_end("h")) == ["SourceEnded", "CheckpointTriggered", "TriggerBarrier"]
    assert PauseSubtask(1, V0, A, DropSource("h")) in h.ack()
    h.released()
    assert h.at(50.0) == []
    assert h.c.next_deadline(50.0) is None
    assert names(_report_paused(h, "h")) == ["SourceDropped", "ResumeSubtask"]
    assert h.c.pauses == (Pause(V0, DropSource("h")),)
    assert names(h.running()) == ["CheckpointTriggered", "TriggerBarrier"]


def test_an_ended_source_is_finished_in_later_checkpoints() -> None:
    h = Harness(MIXED)
    h.source_at_end("h", droppable=False)
    (completed,) = events(CheckpointCompleted, h.ack())
    assert completed.operators["h"] == "finished"
    assert completed.operators["live"] == "running"
    assert not only(PauseSubtask, h.effects)


def test_repeated_reports_and_boundaries_drop_a_source_once() -> None:
    h = Harness(MIXED)
    for _ in range(2):
        h.source_at_end("h")
    h.ack()
    for _ in range(2):
        _report_paused(h, "h")
    h.running()
    h.source_at_end("h")
    assert len(events(SourceEnded, h.effects)) == len(events(SourceDropped, h.effects)) == 1
    assert len(only(PauseSubtask, h.effects)) == 1


def test_a_running_report_before_the_boundary_does_not_end_the_pause() -> None:
    h = Harness(MIXED)
    h.source_at_end("h")
    h.ack()
    h.running()
    assert h.c.pauses == (Pause(V0, DropSource("h")),)
    assert h.c.dropped_messages == {"stale": 1}


def test_a_running_report_with_the_old_plan_does_not_end_the_pause() -> None:
    h = Harness(MIXED)
    h.source_at_end("h")
    h.ack()
    _report_paused(h, "h")
    h.running(plan=0)
    assert h.c.dropped_messages == {"stale": 1}
    assert h.c.pauses == (Pause(V0, DropSource("h")),)
    h.running(plan=1)
    assert not h.c.pauses


def test_a_resume_lists_all_dropped_sources() -> None:
    h = Harness(
        graph(vertex("v", sources="h i live", bounded="h i", sinks="sink")),
        restored=RestoredState(dropped={"v": {"h": 3}}),
    )
    h.source_at_end("i")
    h.ack()
    assert only(ResumeSubtask, _report_paused(h, "i")) == [ResumeSubtask(1, V0, A, VertexPlan(1, ("h", "i")))]


def test_planned_restarts_of_a_query_happen_one_at_a_time() -> None:
    h = Harness(graph(vertex("v", sources="h i live", bounded="h i", sinks="sink")))
    h.source_at_end("h")
    h.source_at_end("i")
    h.ack()
    h.ack()
    assert [d.reason for d in only(PauseSubtask, h.effects)] == [DropSource("h")]
    _report_paused(h, "h")
    assert only(PauseSubtask, h.running()) == [PauseSubtask(1, V0, A, DropSource("i"))]


def test_r20_planned_restarts_of_two_queries_happen_one_at_a_time() -> None:
    """A second restart would make the coordinator forget that it waits for the first query. No command is withdrawn."""
    first, second = (vertex(uid, sources=f"h_{uid} {uid}_live", bounded=f"h_{uid}", sinks=f"s_{uid}") for uid in "vw")
    h = Harness(graph(first, second))
    h.source_at_end("h_v", "v/0")
    h.source_at_end("h_w", "w/0")
    for _ in range(2):
        for subtask in ("v/0", "w/0"):
            h.ack(subtask)
    assert only(PauseSubtask, h.effects) == [PauseSubtask(1, V0, A, DropSource("h_v"))]
    h.paused("v/0", DropSource("h_v"))
    assert only(PauseSubtask, h.running("v/0")) == [PauseSubtask(1, SubtaskId("w/0"), A, DropSource("h_w"))]


def test_checkpoints_longer_than_their_interval_do_not_starve_a_drop() -> None:
    h = Harness(MIXED, interval=1.0)
    h.at(1.0)
    h.source_at_end("h")
    h.now = 5.0
    h.ack()
    h.now = 9.0
    assert PauseSubtask(1, V0, A, DropSource("h")) in h.ack()


def test_after_a_restart_a_source_with_a_known_end_is_still_dropped() -> None:
    h = Harness(MIXED, restored=RestoredState(ended={"v": {"h": 3}}))
    assert names(h.source_at_end("h")) == ["PauseSubtask"]


# -- release


def test_completed_checkpoints_are_rolled_forward_first() -> None:
    """The newest completed checkpoint is released first, because it covers the earlier ones.

    A checkpoint that completes meanwhile is next (R9).
    """
    restored = RestoredState(last_triggered=6, last_completed=5, last_released=3, unreleased=(4, 5))
    h = Harness(restored=restored)
    assert h.effects[0] == Release(5, "sink")
    h.at(10.0)
    h.ack()
    assert h.released(4) == []
    assert h.released(5)[1:] == [Release(7, "sink")]
    assert h.c.last_released == 5


def test_r9_a_checkpoint_is_not_released_before_the_previous_one() -> None:
    h = Harness()
    h.at(10.0)
    h.ack()
    h.at(20.0)
    assert not only(Release, h.ack())
    assert names(h.released(1)) == ["CheckpointReleased", "Release"]
    assert h.released(1) == []
    assert h.c.last_released == 1


def test_a_failed_release_is_retried_at_growing_intervals_until_timeout() -> None:
    h = Harness(interval=1e9)
    h.at(1e9)
    h.ack()
    pauses = []
    while h.now < 1e9 + 300.0:
        assert not only(EndJob, h.release_failed())
        deadline = h.c.next_deadline(h.now)
        assert deadline is not None
        pauses.append(deadline - h.now)
        assert only(Release, h.at(deadline)) == [Release(1, "sink")]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, *[MAX_BACKOFF] * 9]
    end = only(EndJob, h.release_failed())[0]
    assert end.status == "RESTARTING"
    assert "release of checkpoint 1 in 'sink' failed for 301 s (sink_timeout): no answer" in str(end.cause)


def test_a_sink_that_answers_within_its_timeout_causes_no_failure() -> None:
    """The target is a standby for 20 s. The status names the sink and the time."""
    h = Harness(interval=1e9)
    h.at(1e9)
    h.ack()
    while h.now < 1e9 + 20.0:
        assert not only(EndJob, h.release_failed())
        deadline = h.c.next_deadline(h.now)
        assert deadline is not None
        h.at(deadline)
    h.released(1)
    assert h.c.last_released == 1
    warnings = [notice.message for notice in only(Notice, h.effects) if notice.is_warning]
    again = "; the release of checkpoint 1 is tried again"
    assert warnings == [f"sink sink: has waited {seconds} s, no answer{again}" for seconds in (0, 1, 7)]


def test_without_a_timeout_the_first_failure_of_a_sink_ends_the_run() -> None:
    h = Harness(sink_timeout=0.0)
    h.at(10.0)
    h.ack()
    assert only(EndJob, h.release_failed())[0].status == "RESTARTING"


def test_a_terminal_release_failure_fails_the_job() -> None:
    h = Harness()
    h.at(10.0)
    h.ack()
    assert only(EndJob, h.release_failed(terminal=True))[0].status == "FAILED"


def test_a_failed_job_does_not_wait_for_a_sink_that_cannot_be_reached() -> None:
    """The next driver rolls the completed checkpoints forward (R9)."""
    h = Harness()
    h.at(10.0)
    h.ack()
    h.release_failed()
    failed = h.handle(SubtaskFailed(**h.world("v/0"), cause="disk full"))
    assert [end.status for end in only(EndJob, failed)] == ["RESTARTING"]


def test_a_failed_job_waits_for_the_release_in_progress() -> None:
    h = Harness()
    h.at(10.0)
    h.ack()
    assert not only(EndJob, h.handle(SubtaskFailed(**h.world("v/0"), cause="disk full")))
    assert [end.status for end in only(EndJob, h.release_failed())] == ["RESTARTING"]


def test_r16_a_failed_job_first_releases_the_completed_checkpoint() -> None:
    h = Harness()
    h.at(10.0)
    h.ack()
    assert not only(EndJob, h.handle(SubtaskFailed(**h.world("v/0"), cause="boom", terminal=True)))
    assert names(h.released()) == ["CheckpointReleased", "StatusChanged", "EndJob"]


# -- stop and drain


def test_a_stop_takes_a_savepoint_and_ends_only_after_its_release() -> None:
    """FLINK-21132, paimon#10740"""
    h = Harness(min_pause=100.0)
    effects = h.request("stop", "r1")
    assert names(effects) == ["RequestAnswered", "CheckpointTriggered", "TriggerBarrier"]
    assert events(CheckpointTriggered, effects)[0].kind == "savepoint"
    assert not only(EndJob, h.ack())
    assert names(h.released()) == ["CheckpointReleased", "RequestAnswered", "StatusChanged", "EndJob"]
    assert only(EndJob, h.effects) == [EndJob(JobStatus.STOPPED)]
    assert h.answers("r1") == ["accepted", "completed: savepoint 1 is released"]
    assert not only(FinishSubtask, h.effects)


def test_a_stop_lets_a_pending_checkpoint_end_and_then_takes_its_savepoint() -> None:
    h = Harness()
    h.at(10.0)
    assert names(h.request("stop")) == []
    assert [e.kind for e in events(CheckpointTriggered, h.ack())] == ["savepoint"]


def test_a_stop_after_all_data_ended_finishes_the_job() -> None:
    """testTriggerStopWithSavepointWhenWaitingForFinalCheckpoint: nothing is left to stop."""
    h = Harness(BOUNDED)
    h.end_of_data()
    h.request("stop")
    h.ack(finished=True)
    assert names(h.released()) == ["CheckpointReleased", "FinishSubtask"]
    assert only(EndJob, h.done()) == [EndJob(JobStatus.FINISHED)]


def test_a_drain_ends_unbounded_sources_and_finishes_the_job() -> None:
    h = Harness(CHAIN)
    effects = h.request("drain", "r1")
    assert effects[1:] == [DrainSubtask(1, MID0, A)]
    h.end_of_data("src/0")
    h.done("src/0")
    h.end_of_data("mid/0")
    while h.c.pending is not None:
        h.ack("mid/0", finished=True)
    h.released()
    assert only(EndJob, h.done("mid/0")) == [EndJob(JobStatus.FINISHED)]
    assert len(only(DrainSubtask, h.effects)) == 1


def test_a_drain_at_once_is_also_sent_to_draining_subtasks() -> None:
    h = Harness()
    assert only(DrainSubtask, h.request("drain", "r1")) == [DrainSubtask(1, V0, A)]
    assert not only(DrainSubtask, h.request("drain", "r2"))
    assert only(DrainSubtask, h.request("drain", "r3", at_once=True)) == [DrainSubtask(1, V0, A, at_once=True)]
    assert not only(DrainSubtask, h.request("drain", "r4", at_once=True))


def test_a_drain_continues_after_a_restart() -> None:
    assert only(DrainSubtask, Harness(restored=RestoredState(draining=True)).effects) == [DrainSubtask(1, V0, A)]


def test_a_stop_wins_over_a_drain_and_a_drain_during_a_stop_is_refused() -> None:
    h = Harness()
    h.request("drain", "r1")
    h.request("stop", "r2")
    h.request("drain", "r3")
    h.ack()
    h.released()
    assert only(EndJob, h.effects) == [EndJob(JobStatus.STOPPED)]
    assert h.answers("r1") == ["accepted", "failed: the job was stopped before it was drained"]
    assert h.answers("r2") == ["accepted", "completed: savepoint 1 is released"]
    assert h.answers("r3") == ["refused: the job is being stopped"]


def test_a_request_that_is_read_twice_is_answered_once() -> None:
    h = Harness()
    for _ in range(2):
        h.request("drain", "r1")
    assert len(events(RequestAnswered, h.effects)) == 1


@pytest.mark.parametrize("mode", ["stop", "drain"])
def test_the_end_status_is_journaled_before_the_job_ends(mode: str) -> None:
    h = Harness()
    h.request("stop" if mode == "stop" else "drain")
    if mode == "drain":
        h.end_of_data()
    h.ack(finished=mode == "drain")
    h.released()
    h.done()
    assert names(h.effects)[-2:] == ["StatusChanged", "EndJob"]
    assert events(StatusChanged, h.effects)[-1].status == only(EndJob, h.effects)[0].status
    assert events(CheckpointReleased, h.effects)[-1].checkpoint == h.c.last_completed
