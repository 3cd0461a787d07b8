"""Golden copies of a report of late files with a count, and of a change with its request."""

from __future__ import annotations

import json
from pathlib import Path

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.event_codec import decode, encode
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.model.vertex_settings import VertexSettings

GOLDEN = Path(__file__).parents[1] / "golden" / "late-and-asked-v1.json"
EVENTS: list[ev.Event] = [
    ev.SourceFrozen("history", "frozen/history.json", 10, 101.0),
    ev.LateFilesFound("history", ("file:/in/a",), False, 125.0, count=120),
    ev.Reconfigured(1, {"daily": VertexSettings(pool_weight=2)}, 130.0, request="r-1"),
]


def test_golden_late_files_and_changes_are_read_and_written() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert [decode(event) for event in golden] == EVENTS
    assert [json.loads(encode(event)) for event in EVENTS] == golden


def test_a_snapshot_keeps_late_files_and_the_request_of_a_change() -> None:
    state = JobState("orders")
    for event in EVENTS:
        event.apply(state)
    again = state_from_json(state_to_json(state))
    assert (again.frozen, again.late_files, again.reconfigured_for) == (state.frozen, EVENTS[1:2], "r-1")
