"""Journal of a job whose graph changed while it ran (R21)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ckpt.jobmaster.recovery.split_progress import readers_wanted
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.event_codec import decode, encode
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.model.definition import JobDefinition, SourceDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from tests.journal.samples import of_rescaled_workers, of_rescaling

GOLDEN = Path(__file__).parents[1] / "golden"
HISTORY = JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True, parallelism=2, splits=True)


@pytest.mark.parametrize(
    ("name", "events"),
    [("rescaling-v1.json", of_rescaling()), ("rescaling-v1-workers.json", of_rescaled_workers())],
    ids=["one driver", "workers"],
)
def test_golden_events_of_rescaling_are_read_and_written(name: str, events: list[ev.Event]) -> None:
    golden = json.loads((GOLDEN / name).read_text())
    assert [decode(event) for event in golden] == events
    assert [json.loads(encode(event)) for event in events] == golden


def test_r21_a_job_has_the_graph_that_was_journaled_last() -> None:
    state = JobState("job")
    widths = []
    for event in of_rescaling():
        event.apply(state)
        widths.append(state.graph().vertex("history").parallelism)
    assert widths == [2, 4, 4, 4]
    assert state_from_json(state_to_json(state)) == state


@pytest.mark.parametrize(("declared", "wanted"), [(2, 7), (3, 3)], ids=["unchanged", "changed"])
def test_a_requested_parallelism_applies_until_the_job_declares_another(declared: int, wanted: int) -> None:
    state = JobState("job")
    definition = JobDefinition("streaming", {"history": SourceDefinition(True, parallelism=2)}, {}, {})
    before = JobGraph((HISTORY,), ())
    ev.PlanRecorded(before, {}, 1.0, definition).apply(state)
    assert readers_wanted(state, "history", declared) == declared
    change = ev.GraphChange(before.rescaled({"history": 7}), {"history": 7})
    ev.Reconfigured(1, {}, 2.0, change).apply(state)
    assert readers_wanted(state, "history", declared) == wanted
    assert readers_wanted(state, "another", 5) == 5


def test_r21_a_worker_also_runs_colocated_subtasks_that_may_begin() -> None:
    """A worker never gets the co-located subtask by its own name."""
    first, changed, _, added, *_ = of_rescaled_workers()
    state, assigned = JobState("job"), [SubtaskId("history/1")]
    first.apply(state)
    assert (state.with_colocated(assigned), state.assignable()) == (tuple(assigned), ("history/0", "history/1"))
    changed.apply(state)
    assert (state.with_colocated(assigned), state.assignable()) == (tuple(assigned), ("history/0", "history/1"))
    assert state.subtasks_of_process("history") == ("history/0", "history/1"), "nor by the name of the vertex"
    added.apply(state)
    assert (state.with_colocated(assigned), state.assignable()) == (
        ("history/1", "history/3"),
        ("history/0", "history/1"),
    )
    assert state.subtasks_of_process("history/1") == ("history/1", "history/3")
    assert state.subtasks_of_process("history") == ("history/0", "history/1", "history/3"), (
        "history/2 still has to wait"
    )
    assert state_from_json(state_to_json(state)) == state


def test_a_host_stays_assignable_until_its_colocated_subtasks_finish() -> None:
    state = JobState("job")
    for event in of_rescaled_workers()[:4]:
        event.apply(state)
    ev.SubtasksAdded((SubtaskId("history/2"),), 1.0).apply(state)
    state.finished = {SubtaskId("history/0"), SubtaskId("history/1"), SubtaskId("history/3")}
    assert state.unfinished_assignable() == ("history/0",)
    state.finished.add(SubtaskId("history/2"))
    assert state.unfinished_assignable() == ()
