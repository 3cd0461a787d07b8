"""A worker's reports to one JobMaster after the other, and the moment it leaves.

The tests post the reports of its tasks.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.coordinator.protocol import commands as cm
from airflow_provider_ckpt.coordinator.protocol import reports as rp
from airflow_provider_ckpt.journal.events import EpochClaimed, StatusChanged, SubtaskFinished
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.model.worker import Worker as Place
from airflow_provider_ckpt.remote.errors import DeploymentOverError, SubtaskTakenError
from airflow_provider_ckpt.remote.mailbox import read_outbox
from airflow_provider_ckpt.remote.worker import WorkerEnd
from airflow_provider_ckpt.storage.layout import deployment_path
from tests.remote.worker_bench import (
    AT_END,
    DEPLOY,
    DONE,
    DROPPED,
    FAILED,
    FIRST,
    OPENED,
    PAUSE,
    PAUSED,
    PLAN,
    RUNNING,
    SECOND,
    THIRD,
    WORLD,
    CommandRecorder,
    V,
    WorkerBench,
)


@pytest.fixture
def bench(tmp_path: Path) -> WorkerBench:
    bench = WorkerBench(tmp_path)
    assert bench.sent_commands() == [cm.RestartSubtask(1, V, AttemptId.first(1, "n0"), 0.0, PLAN)]
    return bench


def deployed(bench: WorkerBench, *reports: rp.TaskReport) -> None:
    bench.claim()
    assert bench.turn(OPENED) == [OPENED]
    bench.turn(DEPLOY)
    assert bench.sent_commands() == [DEPLOY]
    for report in reports:
        assert bench.turn(report) == [report]


# -- the next JobMaster


def test_the_first_jobmaster_gets_earlier_reports(bench: WorkerBench) -> None:
    assert bench.turn(OPENED) == []
    assert bench.claim() == [OPENED]
    assert bench.turn() == []


def test_an_undeployed_subtask_is_deployed_by_the_next_jobmaster(bench: WorkerBench) -> None:
    bench.claim()
    bench.turn(OPENED)
    assert bench.claim() == [OPENED]
    assert bench.turn(DEPLOY) == []
    assert bench.sent_commands() == [DEPLOY]


@pytest.mark.parametrize("state", [RUNNING, AT_END], ids=["running", "at its end of data"])
def test_a_deployed_subtask_continues_and_reports_its_state(bench: WorkerBench, state: rp.TaskReport) -> None:
    deployed(bench, state)
    assert bench.claim() == [OPENED]
    assert bench.turn(DEPLOY) == [state]
    assert bench.sent_commands() == []


def test_a_deployed_subtask_reports_once_it_runs(bench: WorkerBench) -> None:
    deployed(bench)
    bench.claim()
    assert bench.turn(DEPLOY) == []
    assert bench.turn(RUNNING) == [RUNNING]
    assert bench.sent_commands() == []


def test_ends_of_sources_are_reported_again_except_dropped_ones(bench: WorkerBench) -> None:
    ends = [rp.SourceAtEnd(*WORLD, uid, 3) for uid in ("g", "h")]
    deployed(bench, RUNNING, *ends)
    bench.claim()
    assert bench.turn(cm.DeploySubtask(*WORLD, DROPPED)) == [ends[0], RUNNING]


def test_a_paused_subtask_resumes_with_the_current_plan(bench: WorkerBench) -> None:
    deployed(bench, RUNNING)
    bench.turn(PAUSE)
    assert bench.turn(PAUSED) == [PAUSED]
    bench.sent_commands()
    bench.claim()
    assert bench.turn(cm.DeploySubtask(*WORLD, DROPPED)) == []
    assert bench.sent_commands() == [cm.ResumeSubtask(*WORLD, DROPPED)]
    assert bench.turn(RUNNING) == [RUNNING]


def test_a_pending_pause_is_resumed_for_the_next_jobmaster(bench: WorkerBench) -> None:
    """The JobMaster that requested the pause is gone, so the pause is not reported."""
    deployed(bench, RUNNING)
    bench.turn(PAUSE)
    bench.claim()
    bench.turn(DEPLOY)
    bench.sent_commands()
    assert bench.turn(PAUSED) == []
    assert bench.sent_commands() == [cm.ResumeSubtask(*WORLD, PLAN)]


def test_a_subtask_at_its_end_reports_that_after_a_pause(bench: WorkerBench) -> None:
    """A subtask at its end of data does not answer a pause.

    A JobMaster that waited for the answer would wait forever.
    """
    deployed(bench, RUNNING, AT_END)
    bench.turn(PAUSE)
    bench.claim()
    assert bench.turn(DEPLOY) == [AT_END]


@pytest.mark.parametrize("state", [FAILED, DONE], ids=["failed", "done"])
def test_an_ended_subtask_is_reported_to_the_next_jobmaster(bench: WorkerBench, state: rp.TaskReport) -> None:
    deployed(bench, RUNNING, state)
    assert bench.claim() == [OPENED, state]


def test_a_restarting_subtask_reports_only_its_next_attempt(bench: WorkerBench) -> None:
    """If the worker announced the previous attempt, the JobMaster would ignore the failure of the next one."""
    deployed(bench, RUNNING, FAILED)
    restart = cm.RestartSubtask(*WORLD, 5.0, PLAN)
    bench.turn(restart)
    assert bench.sent_commands() == [restart]
    assert bench.claim() == []
    failed = rp.SubtaskFailed(1, V, SECOND, "no log")
    assert bench.turn(failed) == [failed]
    assert bench.claim() == [failed]


def test_a_restart_is_carried_out_once(bench: WorkerBench) -> None:
    deployed(bench, RUNNING, FAILED)
    restart = cm.RestartSubtask(*WORLD, 5.0, PLAN)
    bench.turn(restart, restart)
    assert bench.sent_commands() == [restart]


def test_w13_a_split_reader_restarts_for_the_next_jobmaster(tmp_path: Path) -> None:
    bench = WorkerBench(tmp_path, by_split=True)
    bench.sent_commands()
    deployed(bench, RUNNING)
    restart = cm.RestartSubtask(*WORLD, 0.0, PLAN)
    assert bench.claim() == []
    assert bench.sent_commands() == [restart]
    assert bench.claim() == []
    assert bench.sent_commands() == []  # the restart is already in progress
    opened = rp.SubtaskOpened(1, V, SECOND)
    assert bench.turn(opened) == [opened]


def test_commands_for_other_attempts_are_ignored(bench: WorkerBench) -> None:
    deployed(bench, RUNNING)
    bench.turn(cm.TriggerBarrier(1, V, SECOND, 3), cm.FinishSubtask(1, V, AttemptId(1, 1, "other")))
    assert bench.sent_commands() == []


def test_reports_of_an_earlier_attempt_are_ignored(bench: WorkerBench) -> None:
    deployed(bench, RUNNING)
    opened = rp.SubtaskOpened(1, V, SECOND)
    assert bench.turn(opened, FAILED) == [opened]


# -- when it leaves


def test_a_worker_stays_until_the_journal_records_its_end(bench: WorkerBench) -> None:
    """A JobMaster that takes over may have read the logs too early. It waits for the report."""
    deployed(bench, RUNNING, AT_END, DONE)
    bench.master.deliver()
    for _ in range(3):
        bench.turn()
    assert bench.worker._end is None
    assert bench.claim() == [OPENED, DONE]
    bench.journaled(SubtaskFinished(V, str(FIRST), 1.0))
    bench.turn()
    assert bench.worker._end is WorkerEnd.DONE


@pytest.mark.parametrize("status", [status for status in JobStatus if not status.is_alive])
def test_a_worker_leaves_when_the_run_is_over(bench: WorkerBench, status: JobStatus) -> None:
    deployed(bench, RUNNING)
    bench.journaled(StatusChanged(status, 1.0))
    bench.turn()
    assert (bench.worker._end, bench.worker.job_status) == (WorkerEnd.JOB_OVER, status)
    bench.worker._close(bench.gateway, "over")
    assert bench.gateway.stopped is (status is JobStatus.STOPPED)


def test_w20_another_deployment_ends_a_worker(bench: WorkerBench) -> None:
    deployed(bench, RUNNING)
    bench.journaled(EpochClaimed(9, "t", Place("elsewhere"), 1.0))
    with pytest.raises(DeploymentOverError, match="epoch 9"):
        bench.turn()


def test_a_worker_leaves_when_another_process_takes_its_subtask(bench: WorkerBench) -> None:
    deployed(bench, RUNNING)
    bench.fenced_by = SECOND
    with pytest.raises(SubtaskTakenError):
        bench.turn()


def test_a_worker_is_not_overtaken_by_its_own_attempt(bench: WorkerBench) -> None:
    deployed(bench, RUNNING)
    bench.fenced_by = AttemptId(1, 2, bench.worker.new_nonce())
    bench.turn()
    assert bench.turn(rp.SubtaskFenced(*WORLD, "fenced", bench.fenced_by)) == []
    bench.fenced_by = None
    with pytest.raises(SubtaskTakenError):
        bench.turn(rp.SubtaskFenced(*WORLD, "fenced", THIRD))


def test_w7_a_worker_leaves_without_a_heartbeat_of_a_jobmaster(bench: WorkerBench) -> None:
    deployed(bench, RUNNING)
    for _ in range(30):
        bench.master.post(bench.outbox_of_worker.name, cm.TriggerBarrier(1, V, SECOND, 3))
        bench.turn()
    assert bench.worker._end is None
    for _ in range(21):
        bench.clock.now += 1.0
        bench.worker._step(bench.gateway)
    assert bench.worker._end is WorkerEnd.NO_MASTER


def test_a_claim_counts_as_a_heartbeat_of_the_jobmaster(bench: WorkerBench) -> None:
    for _ in range(15):
        bench.turn()
    bench.claim()
    for _ in range(15):
        bench.clock.now += 1.0
        bench.worker._step(bench.gateway)
    assert bench.worker._end is None


def test_a_worker_leaves_on_request_and_reports_it(bench: WorkerBench) -> None:
    deployed(bench, RUNNING)
    bench.worker.leave()
    bench.turn()
    assert bench.worker._end is WorkerEnd.ASKED
    bench.worker.post(AT_END)
    bench.worker._close(bench.gateway, "it was told to")
    outbox, last = bench.master.receive(bench.outbox_of_worker.name)
    assert outbox is not None
    assert (bench.gateway.stopped, outbox.left, last) == (True, "it was told to", [AT_END])


def test_a_worker_without_restarts_leaves_with_its_failure(tmp_path: Path) -> None:
    """A worker without restarts reports that its subtask waits for another worker, and leaves."""
    bench = WorkerBench(tmp_path, restarts=False)
    bench.sent_commands()
    deployed(bench, RUNNING)
    failed = rp.SubtaskFailed(*WORLD, "boom")
    assert bench.turn(failed) == [replace(failed, worker_is_lost=True)]
    assert bench.worker._end is WorkerEnd.FAILED


def test_a_worker_that_leaves_early_opens_no_other_log(tmp_path: Path) -> None:
    """The other logs are left to the worker that replaces it."""
    bench = WorkerBench(tmp_path, restarts=False)
    bench.sent_commands()
    hosting, other = bench.worker._slots, SubtaskId("w/0")
    part = hosting._part
    attempts, plans = {**part.attempts, other: AttemptId.first(1, "n0")}, {**part.plans, other: PLAN}
    hosting._part, hosting._not_begun = replace(part, attempts=attempts, plans=plans), [other]
    bench.turn(rp.SubtaskFailed(*WORLD, "boom"))
    assert bench.worker._end is WorkerEnd.FAILED
    assert bench.sent_commands() == []


def test_a_terminal_failure_is_left_to_the_jobmaster(tmp_path: Path) -> None:
    bench = WorkerBench(tmp_path, restarts=False)
    bench.sent_commands()
    deployed(bench, RUNNING)
    failed = rp.SubtaskFailed(*WORLD, "damaged", terminal=True)
    assert bench.turn(failed) == [failed]
    assert bench.worker._end is None


def test_a_task_that_stops_with_its_worker_has_not_failed(bench: WorkerBench) -> None:
    """A report of the interruption as a failure would end the run."""
    deployed(bench, RUNNING)
    end = rp.SubtaskAtEndOfData(*WORLD)
    bench.worker.post(rp.SubtaskFailed(*WORLD, "interrupted"))
    bench.worker.post(end)
    bench.worker._close(bench.gateway, "it was told to")
    outbox, received = bench.master.receive(bench.outbox_of_worker.name)
    assert received == [end]
    assert outbox is not None
    assert outbox.left == "it was told to"


# -- repartitioning: only the attempt that begins with the new number of partitions does it (R21)

CUT = replace(PLAN, settings=VertexSettings(state_partitions=4))


def check_restart(bench: WorkerBench) -> None:
    assert bench.sent_commands() == [cm.RestartSubtask(*WORLD, 0.0, CUT)]
    opened = replace(OPENED, attempt=SECOND)
    assert bench.turn(opened) == [opened]
    deploy = cm.DeploySubtask(1, V, SECOND, CUT)
    bench.turn(deploy)
    assert bench.sent_commands() == [deploy]


def test_r21_a_paused_subtask_restarts_to_repartition(bench: WorkerBench) -> None:
    deployed(bench, RUNNING)
    bench.turn(PAUSE)
    bench.turn(PAUSED)
    bench.sent_commands()
    bench.turn(cm.RestartSubtask(*WORLD, 0.0, CUT))
    check_restart(bench)


def test_r21_a_paused_subtask_restarts_for_a_decided_repartition(bench: WorkerBench) -> None:
    """The previous JobMaster had not sent the restart."""
    deployed(bench, RUNNING)
    bench.turn(PAUSE)
    bench.turn(PAUSED)
    bench.sent_commands()
    bench.claim()
    bench.turn(cm.DeploySubtask(*WORLD, CUT))
    check_restart(bench)


def test_r21_a_subtask_begun_before_the_repartition_restarts(bench: WorkerBench) -> None:
    bench.claim()
    bench.turn(OPENED)
    bench.turn(cm.DeploySubtask(*WORLD, CUT))
    check_restart(bench)


def test_a_change_that_does_not_repartition_needs_no_restart(bench: WorkerBench) -> None:
    deployed(bench, RUNNING)
    bench.turn(PAUSE)
    bench.turn(PAUSED)
    bench.sent_commands()
    bench.claim()
    plan = replace(PLAN, settings=VertexSettings(pool_weight=2, logic={"v": "v2.py:job"}))
    bench.turn(cm.DeploySubtask(*WORLD, plan))
    assert bench.sent_commands() == [cm.ResumeSubtask(*WORLD, plan)]


def test_a_worker_writes_its_outbox_before_it_begins_an_attempt(tmp_path: Path) -> None:
    """A standby worker takes attempts that were begun and that no outbox lists."""
    shown: list[object] = []

    class Looking(CommandRecorder):
        def start(self) -> None:
            shown.append(read_outbox(made.storage, f"{deployment_path('job', 1)}/worker-w.json"))

    made = WorkerBench(tmp_path)
    made.storage.delete(f"{deployment_path('job', 1)}/worker-w.json")
    made.outbox_of_worker._is_changed = True
    made.worker._begin(Looking())
    assert len(shown) == 1
    assert shown[0] is not None
