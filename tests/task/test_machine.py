"""Next actions of a task, derived from its phase, its log's tail, its inputs and its commands."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.coordinator.protocol.reports import (
    Report,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskPaused,
    SubtaskRunning,
)
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId, TaskId
from airflow_provider_ckpt.model.pause_reason import DropSource
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.task.actions import (
    Action,
    AnnounceEnd,
    BuildQuery,
    EndData,
    EndPartition,
    PauseQuery,
    PostReport,
    ReadAvailable,
    RunQuery,
)
from airflow_provider_ckpt.task.machine import ReadProgress, TaskMachine
from airflow_provider_ckpt.task.phase import TaskPhase

BOTH = {"history", "live"}
DROP = DropSource("history")
FIRST = VertexPlan(0, ())
TASK = TaskId(1, SubtaskId("v/0"), AttemptId.first(1, "a"))


def seen(*ended: str, inputs_ended: bool = True, batch_id: int = 3) -> ReadProgress:
    return ReadProgress(frozenset(ended), inputs_ended, batch_id)


def mixed() -> TaskMachine:
    return TaskMachine(TASK, {"history"})


def run(machine: TaskMachine, reads: set[str] = BOTH, now: ReadProgress | None = None) -> TaskMachine:
    machine.deploy(FIRST, None)
    machine.planned(reads, ends_by_itself=False, progress=now or seen())
    machine.started(now or seen())
    return machine


def reports(actions: list[Action]) -> list[Report]:
    return [action.report for action in actions if isinstance(action, PostReport)]


def test_a_task_runs_from_its_deployment_to_its_end() -> None:
    task = mixed()
    assert task.deploy(FIRST, None) == [BuildQuery(FIRST)]
    assert task.planned(BOTH, ends_by_itself=False, progress=seen()) == [RunQuery()]
    assert reports(task.started(seen())) == [SubtaskRunning(*TASK, plan=0)]
    assert task.advance(seen("history")) == [AnnounceEnd("history", 3)]
    assert task.drain(seen("history")) == [ReadAvailable()]
    assert task.advance(seen("history")) == []
    assert task.query_ended() == [EndData("drain")]
    assert reports(task.data_ended()) == [SubtaskAtEndOfData(*TASK)]
    assert task.finish() == [EndPartition()]
    assert reports(task.partition_ended()) == [SubtaskDone(*TASK)]
    assert task.phase is TaskPhase.FINISHED


def test_r11_an_end_of_data_in_the_log_starts_no_query() -> None:
    task = mixed()
    assert reports(task.deploy(FIRST, "drain")) == [SubtaskAtEndOfData(*TASK)]
    assert task.phase is TaskPhase.AT_END_OF_DATA


def test_r12_a_planned_final_batch_leaves_only_the_end() -> None:
    assert mixed().deploy(FIRST, None, final_batch_planned=True) == [EndData("drain")]


def test_the_last_source_to_end_ends_the_task() -> None:
    task = run(TaskMachine(TASK, {"a", "b"}), {"a", "b"})
    assert task.advance(seen("a")) == [AnnounceEnd("a", 3)]
    assert task.advance(seen("a", "b")) == [EndData("finish")]
    assert task.advance(seen("a", "b")) == []


def test_an_end_is_announced_again_after_a_resume_unless_dropped() -> None:
    task = run(TaskMachine(TASK, {"a", "b"}), {"a", "b", "live"})
    assert task.advance(seen("a", "b")) == [AnnounceEnd("a", 3), AnnounceEnd("b", 3)]
    assert task.advance(seen("a", "b")) == []
    assert task.pause(DropSource("a")) == [PauseQuery()]
    task.paused_at(3)
    task.resume(VertexPlan(1, ("a",)))
    assert task.planned({"a", "b", "live"}, ends_by_itself=False, progress=seen("b")) == [
        AnnounceEnd("b", 3),
        RunQuery(),
    ]


def test_a_resumed_task_runs_with_the_new_plan() -> None:
    task = run(mixed(), now=seen("history"))
    assert task.pause(DROP) == [PauseQuery()]
    assert task.phase is TaskPhase.PAUSING
    assert reports(task.paused_at(4)) == [SubtaskPaused(*TASK, DROP, 4)]
    assert task.resume(VertexPlan(1, ("history",))) == [BuildQuery(VertexPlan(1, ("history",)))]
    assert task.planned(BOTH, ends_by_itself=False, progress=seen("history")) == [RunQuery()]
    assert reports(task.started(seen("history"))) == [SubtaskRunning(*TASK, plan=1)]


def test_an_end_during_a_pause_is_handled_after_the_resume() -> None:
    task = run(TaskMachine(TASK, {"a", "b"}), {"a", "b"})
    task.pause(DropSource("a"))
    assert task.advance(seen("a", "b")) == []
    task.paused_at(3)
    assert task.advance(seen("a", "b")) == []
    task.resume(VertexPlan(1, ("a",)))
    assert task.planned({"a", "b"}, ends_by_itself=False, progress=seen("b")) == [EndData("finish")]


@pytest.mark.parametrize("when", ["building", "starting"])
def test_a_pause_during_the_start_of_the_query_is_kept(when: str) -> None:
    task = mixed()
    task.deploy(FIRST, None)
    if when == "building":
        assert task.pause(DROP) == []
        assert task.planned(BOTH, ends_by_itself=False, progress=seen()) == [PauseQuery()]
    else:
        task.planned(BOTH, ends_by_itself=False, progress=seen())
        assert task.pause(DROP) == []
        assert task.started(seen()) == [PauseQuery()]


def test_a_pause_at_the_end_of_data_is_answered_by_the_end() -> None:
    task = run(TaskMachine(TASK, {"a"}), {"a"})
    task.advance(seen("a"))
    assert task.pause(DropSource("a")) == []
    assert reports(task.data_ended()) == [SubtaskAtEndOfData(*TASK)]
    assert task.pause(DropSource("a")) == []


def test_a_query_that_ends_by_itself_waits_for_its_inputs_to_end() -> None:
    task = TaskMachine(TASK, {"edge"})
    task.deploy(FIRST, None)
    early = seen(inputs_ended=False)
    assert reports(task.planned({"edge", "jdbc"}, ends_by_itself=True, progress=early)) == [
        SubtaskRunning(*TASK, plan=0)
    ]
    assert task.phase is TaskPhase.WAITING
    assert task.advance(early) == []
    assert task.advance(seen("edge")) == [RunQuery(), AnnounceEnd("edge", 3)]
    assert task.started(seen("edge")) == []
    assert task.query_ended() == [EndData("finish")]


def test_a_drain_does_not_cut_a_bounded_source_that_ends_by_itself() -> None:
    task = TaskMachine(TASK, {"edge"})
    task.deploy(FIRST, None)
    task.planned({"edge", "jdbc"}, ends_by_itself=True, progress=seen("edge"))
    task.started(seen("edge"))
    assert task.drain(seen("edge")) == []
    assert task.query_ended() == [EndData("finish")]


def test_a_query_may_end_before_it_is_reported_as_running() -> None:
    task = TaskMachine(TASK, ())
    task.deploy(FIRST, None)
    task.planned({"jdbc"}, ends_by_itself=True, progress=seen())
    assert task.query_ended() == [EndData("finish")]
    assert task.started(seen()) == []


def test_a_drain_waits_for_bounded_sources() -> None:
    task = run(mixed())
    assert task.drain(seen()) == []
    assert task.advance(seen("history")) == [ReadAvailable()]


def test_a_drain_at_once_ends_live_sources_at_their_positions() -> None:
    task = run(mixed())
    assert task.drain(seen(), at_once=True) == []
    assert task.advance(seen("history")) == [EndData("drain")]


def test_a_drain_at_once_ends_a_running_drain() -> None:
    task = run(mixed(), now=seen("history"))
    assert task.drain(seen("history")) == [ReadAvailable()]
    assert task.drain(seen("history"), at_once=True) == [EndData("drain")]
    assert task.query_ended() == []


def test_a_query_paused_in_a_drain_reads_available_rows_after_it() -> None:
    task = run(mixed(), now=seen("history"))
    assert task.drain(seen("history")) == [ReadAvailable()]
    task.pause(DROP)
    task.paused_at(3)
    task.resume(VertexPlan(1, ("history",)))
    before = task.reads_available
    assert task.planned(BOTH, ends_by_itself=False, progress=seen("history")) == [RunQuery()]
    assert (before, task.reads_available) == (False, True)
    assert reports(task.started(seen("history"))) == [SubtaskRunning(*TASK, plan=1)]
    assert task.query_ended() == [EndData("drain")]


def test_a_drain_during_the_start_is_carried_out_when_the_query_runs() -> None:
    task = mixed()
    task.deploy(FIRST, None)
    assert task.planned(BOTH, ends_by_itself=False, progress=seen("history"))[-1:] == [RunQuery()]
    assert task.drain(seen("history")) == []
    assert task.started(seen("history"))[-1:] == [ReadAvailable()]


def test_a_drain_during_a_pause_is_carried_out_after_the_resume() -> None:
    task = run(mixed(), now=seen("history"))
    task.pause(DROP)
    task.paused_at(3)
    assert task.drain(seen("history")) == []
    task.resume(VertexPlan(1, ("history",)))
    assert task.planned(BOTH, ends_by_itself=False, progress=seen("history")) == [RunQuery()]
    assert task.query_ended() == [EndData("drain")]


def test_commands_that_do_not_fit_the_phase_are_ignored() -> None:
    task = mixed()
    assert task.finish() == task.pause(DROP) == task.paused_at(1) == task.data_ended() == task.query_ended() == []
    assert task.resume(VertexPlan(1, ())) == task.started(seen()) == task.advance(seen("history", "live")) == []
    task.deploy(FIRST, None)
    assert task.deploy(FIRST, None) == []
