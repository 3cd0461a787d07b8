"""A worker of a rescaled job (R21): the subtasks it takes in, and its restarts to read more channels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.coordinator.protocol import commands as cm
from airflow_provider_ckpt.coordinator.protocol import reports as rp
from airflow_provider_ckpt.journal.events import GraphChange, PlanRecorded, Reconfigured, SubtaskFinished, SubtasksAdded
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.remote.errors import DeploymentOverError, SubtaskTakenError
from airflow_provider_ckpt.remote.task_slots import TaskSlots
from airflow_provider_ckpt.remote.worker import WorkerEnd
from airflow_provider_ckpt.remote.worker_part import WorkerPart
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.remote.worker_bench import (
    DONE,
    FIRST,
    OPENED,
    PAUSE,
    PAUSED,
    PLAN,
    RUNNING,
    WORLD,
    CommandRecorder,
    V,
    WorkerBench,
)
from tests.support.definitions import STREAMING

GUEST, OTHER = SubtaskId("v/2"), SubtaskId("v/1")
SPLIT = JobVertex("v", ("v",), ("v",), ("v",), (), bounded=True, parallelism=2, splits=True)
B = JobVertex("b", ("b",), (), (), ("out",), bounded=True)
GRAPH = JobGraph((SPLIT, B), (JobEdge("v__b", "v", "b", "b", "all_to_all"),))
CHANGE = GraphChange(GRAPH.rescaled({"v": 3}), {"v": 3}, {GUEST: V})
CHANGED = Reconfigured(1, {}, 2.0, CHANGE)
ADDED = SubtasksAdded((GUEST,), 3.0)
WIDER = replace(PLAN, parallelism={"parts": 3})


@pytest.fixture
def bench(tmp_path: Path) -> WorkerBench:
    """The worker of v/0. The job also has v/1, and v reads by split."""
    bench = WorkerBench(tmp_path, by_split=True)
    bench.journaled(PlanRecorded(GRAPH, {}, 1.0, STREAMING))
    bench.claim()
    bench.turn(OPENED)
    bench.turn(cm.DeploySubtask(*WORLD, PLAN), RUNNING)
    bench.sent_commands()
    return bench


def restart_commands(bench: WorkerBench) -> list[cm.RestartSubtask]:
    return [command for command in bench.sent_commands() if isinstance(command, cm.RestartSubtask)]


def test_r21_a_worker_begins_an_added_subtask_after_its_journal_entry(bench: WorkerBench) -> None:
    bench.journaled(CHANGED)
    bench.turn()
    assert restart_commands(bench) == []
    bench.journaled(ADDED)
    bench.turn()
    (begin,) = restart_commands(bench)
    assert (begin.subtask, begin.attempt, begin.plan.parallelism) == (GUEST, AttemptId.vacant(1), {"v": 3})
    bench.turn()
    assert restart_commands(bench) == [], "once"


def test_an_added_subtask_belongs_to_the_worker_of_its_host(bench: WorkerBench) -> None:
    bench.journaled(replace(CHANGED, graph=replace(CHANGE, hosts={GUEST: OTHER})), ADDED)
    bench.turn()
    assert restart_commands(bench) == []


def test_a_worker_stays_until_its_own_and_its_added_subtask_finish(bench: WorkerBench) -> None:
    bench.journaled(CHANGED, ADDED)
    bench.turn()
    opened = rp.SubtaskOpened(1, GUEST, FIRST)
    assert bench.turn(opened) == [opened]
    bench.journaled(SubtaskFinished(V, str(FIRST), 4.0))
    bench.turn(DONE)
    assert bench.worker._end is None
    bench.turn(rp.SubtaskDone(1, GUEST, FIRST))
    assert bench.worker._end is None, "the journal does not say so"
    bench.journaled(SubtaskFinished(GUEST, str(FIRST), 5.0))
    bench.turn()
    assert bench.worker._end is WorkerEnd.DONE


def test_a_worker_with_finished_subtasks_begins_the_added_one(bench: WorkerBench) -> None:
    """The journal has the change before the end of its data, because no subtask ends during a rescale."""
    bench.journaled(CHANGED, ADDED, SubtaskFinished(V, str(FIRST), 4.0))
    bench.turn(DONE)
    assert bench.worker._end is None
    assert [begin.subtask for begin in restart_commands(bench)] == [GUEST]


def test_w14_an_overtaken_worker_does_not_begin_an_added_subtask(bench: WorkerBench) -> None:
    """Its successor begins the new subtask.

    If both workers began it, each would own one of the two logs, and both would leave.
    """
    bench.journaled(CHANGED, ADDED)
    bench.fenced_by = AttemptId(1, 2, "other")
    with pytest.raises(SubtaskTakenError):
        bench.turn()
    assert restart_commands(bench) == []


def test_w14_a_worker_skips_the_log_of_a_finished_subtask(bench: WorkerBench) -> None:
    """v/0 has finished and its log is no longer opened, so this log does not show which worker was first."""
    gateway = CommandRecorder()
    bench.journaled(CHANGED, ADDED, SubtaskFinished(V, str(FIRST), 4.0))
    part = WorkerPart.of(bench.storage, finished_log(bench), [V, GUEST])
    TaskSlots(part, lambda report: None).begin(gateway)
    assert [command.subtask for command in gateway.sent] == [GUEST]


def finished_log(bench: WorkerBench) -> JobState:
    log = SubtaskLog(bench.storage, subtask_log_path("job", "v", 0))
    log.load()
    log.open(FIRST, 0)
    return bench.state


def test_w20_a_worker_refuses_a_subtask_of_another_deployment(bench: WorkerBench) -> None:
    log = SubtaskLog(bench.storage, subtask_log_path("job", "v", 2))
    log.load()
    log.open(AttemptId.first(9, "x"), 0)
    bench.journaled(CHANGED, ADDED)
    with pytest.raises(DeploymentOverError):
        WorkerPart.of(bench.storage, bench.state, [GUEST])


def test_an_added_subtask_ignores_attempts_of_an_earlier_deployment(bench: WorkerBench) -> None:
    log = SubtaskLog(bench.storage, subtask_log_path("job", "v", 2))
    log.load()
    log.open(AttemptId.first(1, "x"), 0)
    bench.journaled(CHANGED, ADDED)
    bench.state.deployment = 5
    assert WorkerPart.of(bench.storage, bench.state, [GUEST]).attempts == {GUEST: AttemptId.vacant(5)}


# -- a subtask that reads the results of the source


@pytest.fixture
def reader(tmp_path: Path) -> WorkerBench:
    """The worker of v/0. v/0 reads parts, which had two subtasks when v/0 was begun."""
    bench = WorkerBench(tmp_path, reads={"parts": 2})
    bench.claim()
    bench.turn(OPENED)
    bench.sent_commands()
    return bench


def test_r21_a_reader_begun_with_fewer_channels_restarts_when_deployed(reader: WorkerBench) -> None:
    reader.turn(cm.DeploySubtask(*WORLD, WIDER))
    assert reader.sent_commands() == [cm.RestartSubtask(*WORLD, 0.0, WIDER)]


def test_r21_a_reader_with_fewer_channels_restarts_for_the_next_jobmaster(reader: WorkerBench) -> None:
    """The previous JobMaster died before it announced the new subtask."""
    reader.turn(cm.DeploySubtask(*WORLD, replace(PLAN, parallelism={"parts": 2})), RUNNING)
    reader.sent_commands()
    assert reader.claim() == [OPENED]
    assert reader.turn(cm.DeploySubtask(*WORLD, WIDER)) == []
    assert reader.sent_commands() == [cm.RestartSubtask(*WORLD, 0.0, WIDER)]


def test_a_reader_that_resumed_with_the_new_channels_does_not_restart(reader: WorkerBench) -> None:
    reader.turn(cm.DeploySubtask(*WORLD, replace(PLAN, parallelism={"parts": 2})), RUNNING)
    reader.turn(PAUSE)
    reader.turn(PAUSED)
    reader.turn(cm.ResumeSubtask(*WORLD, WIDER))
    reader.turn(RUNNING)
    reader.sent_commands()
    assert reader.claim() == [OPENED]
    assert reader.turn(cm.DeploySubtask(*WORLD, WIDER)) == [RUNNING]
    assert reader.sent_commands() == []


def test_a_paused_reader_resumes_with_the_new_channels(reader: WorkerBench) -> None:
    reader.turn(cm.DeploySubtask(*WORLD, replace(PLAN, parallelism={"parts": 2})), RUNNING)
    reader.turn(PAUSE)
    reader.turn(PAUSED)
    reader.sent_commands()
    reader.claim()
    reader.turn(cm.DeploySubtask(*WORLD, WIDER))
    assert reader.sent_commands() == [cm.ResumeSubtask(*WORLD, WIDER)]


def test_a_subtask_that_does_not_read_the_source_continues(tmp_path: Path) -> None:
    bench = WorkerBench(tmp_path)
    bench.claim()
    bench.turn(OPENED)
    bench.turn(cm.DeploySubtask(*WORLD, PLAN), RUNNING)
    bench.sent_commands()
    bench.claim()
    assert bench.turn(cm.DeploySubtask(*WORLD, WIDER)) == [RUNNING]
    assert bench.sent_commands() == []
