"""Journal of queries that were changed while their job ran (R21)."""

from __future__ import annotations

import json
from pathlib import Path

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.event_codec import decode, encode
from airflow_provider_ckpt.journal.kinds.reconfiguration import REMEMBERED
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.vertex_settings import VertexSettings, merged
from tests.journal.samples import GRAPH, of_composed, of_executors, of_reconfiguration
from tests.support.definitions import STREAMING

GOLDEN = Path(__file__).parents[1] / "golden" / "reconfiguration-v1.json"
EXECUTORS = GOLDEN.with_name("reconfiguration-v1-executors.json")
COMPOSED = GOLDEN.with_name("reconfiguration-v1-composed.json")


def test_golden_events_of_reconfigurations_are_read_and_written() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert [decode(event) for event in golden] == of_reconfiguration()
    assert [json.loads(encode(event)) for event in of_reconfiguration()] == golden


def test_golden_events_of_composed_changes_are_read_and_written() -> None:
    golden = json.loads(COMPOSED.read_text())
    assert [decode(event) for event in golden] == of_composed()
    assert [json.loads(encode(event)) for event in of_composed()] == golden


def test_golden_events_of_changed_executors_are_read_and_written() -> None:
    golden = json.loads(EXECUTORS.read_text())
    assert [decode(event) for event in golden] == of_executors()
    assert [json.loads(encode(event)) for event in of_executors()] == golden


def test_r21_one_entry_has_the_whole_change() -> None:
    state = JobState("job")
    ev.PlanRecorded(GRAPH, {}, 101.0, STREAMING).apply(state)
    of_composed()[0].apply(state)
    assert (state.reconfigured, state.reconfigured_at, sorted(state.settings)) == (1, 110.0, ["daily"])
    assert state.graph().vertex("rates").parallelism == 4
    assert state.plan is not None
    assert state.plan.rescaled == {"rates": 4}
    of_composed()[1].apply(state)
    assert (state.reconfigurations[-1].by, state.reconfigurations[-1].why) == (
        "Autoscaler(daily)",
        "its batches are full",
    )
    assert state_from_json(state_to_json(state)) == state


def test_r21_a_change_applies_from_its_entry_with_its_state_partitions() -> None:
    state, cuts = JobState("job"), []
    for event in of_reconfiguration():
        event.apply(state)
        assert state.definition is not None
        cuts.append((state.definition.vertices["daily"].shuffle_partitions, sorted(state.settings)))
    assert cuts == [(200, []), (8, ["daily"]), (8, ["daily"]), (8, ["daily"]), (8, ["daily"]), (8, ["daily"])]
    assert state.reconfigured == 1
    assert [change.request for change in state.reconfigurations] == ["r-3"], "a failed change is not remembered"
    assert state_from_json(state_to_json(state)) == state


def test_the_last_reconfigurations_are_remembered() -> None:
    state = JobState("job")
    for number in range(1, REMEMBERED + 6):
        ev.ReconfigurationEnded(number, None, RequestOutcome.completed(""), {}, 1.0).apply(state)
    assert [change.number for change in state.reconfigurations] == list(range(6, REMEMBERED + 6))


def test_a_change_without_an_outcome_is_remembered() -> None:
    """The change applies. A reader of the last changes would otherwise see only the previous one."""
    state = JobState("job")
    ev.Reconfigured(1, {}, 1.0, request="first").apply(state)
    assert [str(change.outcome) for change in state.reconfigurations] == [
        "accepted: decided; every later attempt applies it"
    ]
    ev.Reconfigured(2, {}, 2.0, by="Weighs").apply(state)
    ev.ReconfigurationEnded(2, None, RequestOutcome.completed("it stood still"), {}, 3.0, by="Weighs").apply(state)
    remembered = [
        (change.number, change.request, change.by, change.at, change.outcome.is_last)
        for change in state.reconfigurations
    ]
    assert remembered == [(1, "first", None, 1.0, False), (2, None, "Weighs", 3.0, True)]


def test_a_change_keeps_settings_that_it_does_not_name() -> None:
    before = VertexSettings(max_bytes_per_batch=10, trigger_interval=2.0, logic={"a": "one.py:job"})
    change = VertexSettings(max_files_per_batch=3, trigger_interval=0.0, logic={"b": "two.py:job"})
    assert before.changed(change) == VertexSettings(
        max_files_per_batch=3, trigger_interval=0.0, logic={"a": "one.py:job", "b": "two.py:job"}
    ), "a new limit replaces the other kind of limit"
    assert merged({"v": before}, {"w": change}) == {"v": before, "w": change}
