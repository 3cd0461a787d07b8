"""What the journal tells of a job whose graph changed while it ran (R21)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ckpt.jobmaster.split_progress import readers_wanted
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.codec import decode, encode
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.model.definition import JobDefinition, SourceDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from tests.journal.samples import of_rescaling

GOLDEN = Path(__file__).parents[1] / "golden" / "rescaling-v1.json"
HISTORY = JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True, parallelism=2, splits=True)


def test_golden_events_of_rescaling_still_read_and_write_the_same() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert [decode(event) for event in golden] == of_rescaling()
    assert [json.loads(encode(event)) for event in of_rescaling()] == golden


def test_r21_the_graph_of_a_job_is_the_one_that_was_journaled_last() -> None:
    state = JobState("job")
    widths = []
    for event in of_rescaling():
        event.apply(state)
        widths.append(state.graph().vertex("history").parallelism)
    assert widths == [2, 4, 4, 4]
    assert state_from_json(state_to_json(state)) == state


@pytest.mark.parametrize(("declared", "wanted"), [(2, 7), (3, 3)], ids=["as then", "declared anew"])
def test_what_was_asked_for_holds_until_the_job_declares_another_number(declared: int, wanted: int) -> None:
    state = JobState("job")
    definition = JobDefinition("streaming", {"history": SourceDefinition(True, parallelism=2)}, {}, {})
    before = JobGraph((HISTORY,), ())
    ev.PlanRecorded(before, {}, 1.0, definition).apply(state)
    assert readers_wanted(state, "history", declared) == declared
    ev.GraphChanged(1, before.rescaled({"history": 7}), {"history": 7}, 2.0).apply(state)
    assert readers_wanted(state, "history", declared) == wanted
    assert readers_wanted(state, "another", 5) == 5
