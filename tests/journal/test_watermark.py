"""Watermarks in a checkpoint."""

from __future__ import annotations

from airflow_provider_ckpt.journal.events import CheckpointCompleted, PlanRecorded
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition, VertexDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.json_form import from_json, to_json
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.source_times import MAX_WATERMARK

TIMED = VertexDefinition("append", True, event_time=True)
PLAIN = VertexDefinition("append", False)


def job(*snapshots: tuple[str, Snapshot], **vertices: VertexDefinition) -> JobState:
    covered = {SubtaskId(name): snapshot for name, snapshot in snapshots}
    done = CheckpointCompleted(7, 1.0, 2.0, "checkpoint", covered, {})
    definition = JobDefinition("streaming", {}, vertices, {})
    plan = PlanRecorded(JobGraph((), ()), {}, 1.0, definition=definition)
    return JobState("job", plan=plan, checkpoints={7: done}, last_completed=7)


def at(watermark: int | None, *, finished: bool = False) -> Snapshot:
    return Snapshot(1, 1, watermark=watermark, finished=finished)


def test_the_slowest_subtask_with_event_time_decides() -> None:
    state = job(("a/0", at(30)), ("a/1", at(20)), ("b/0", at(40)), ("c/0", at(None)), a=TIMED, b=TIMED, c=PLAIN)
    assert state.watermark(7) == 20


def test_a_subtask_without_event_time_leaves_the_watermark_open() -> None:
    assert job(("a/0", at(30)), ("b/0", at(None)), a=TIMED, b=TIMED).watermark(7) is None


def test_a_finished_subtask_does_not_hold_the_watermark() -> None:
    assert job(("a/0", at(5, finished=True)), ("b/0", at(40)), a=TIMED, b=TIMED).watermark(7) == 40
    assert job(("a/0", at(None, finished=True)), ("c/0", at(None)), a=TIMED, c=PLAIN).watermark(7) == MAX_WATERMARK


def test_a_job_without_event_time_has_no_watermark() -> None:
    state = job(("c/0", at(None)), c=PLAIN)
    assert (state.has_event_time, state.watermark(7)) == (False, None)
    assert JobState("job").has_event_time is False


def test_a_forgotten_checkpoint_has_no_watermark() -> None:
    assert job(("a/0", at(30)), a=TIMED).watermark(6) is None


def test_event_time_is_in_the_plan_only_if_a_vertex_has_it() -> None:
    assert from_json(VertexDefinition, to_json(TIMED)).event_time
    assert "event_time" not in to_json(PLAIN)
    assert not from_json(VertexDefinition, to_json(PLAIN)).event_time


def test_a_query_whose_results_lag_its_watermark_has_no_watermark() -> None:
    late = VertexDefinition("append", True, event_time=True, lags=True)
    state = job(("a/0", at(30)), ("b/0", at(40)), a=late, b=TIMED)
    assert (state.has_event_time, state.watermark(7)) == (False, None)
