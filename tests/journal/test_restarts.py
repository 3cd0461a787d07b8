"""Journal of subtasks that restarted alone."""

from __future__ import annotations

import json
from pathlib import Path

from airflow_provider_ckpt.journal.event_codec import decode, encode
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from tests.journal.samples import of_restarts

GOLDEN = Path(__file__).parents[1] / "golden" / "restarts-v1.json"


def test_golden_events_of_restarts_are_read_and_written() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert [decode(event) for event in golden] == of_restarts()
    assert [json.loads(encode(event)) for event in of_restarts()] == golden


def test_the_state_counts_restarts_and_survives_json() -> None:
    state = JobState("job")
    assert "restarts" not in state_to_json(state)
    for event in of_restarts():
        event.apply(state)
    assert state.restarts == {"clean/0": 2, "history/1": 1}
    assert state_from_json(state_to_json(state)) == state
