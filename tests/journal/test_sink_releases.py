"""Journal of sinks that have released different checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.event_codec import decode, encode
from airflow_provider_ckpt.journal.kinds.event import HISTORY
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.triggers.release import release_events
from tests.journal.samples import folded, of_earlier_rows, of_sinks

GOLDEN = Path(__file__).parents[1] / "golden"


def completed(number: int) -> ev.CheckpointCompleted:
    return ev.CheckpointCompleted(number, 1.0, 2.0, "checkpoint", {}, {})


@pytest.mark.parametrize(
    ("name", "events"),
    [("sink-releases-v1.json", of_sinks), ("sink-releases-v1-earlier-rows.json", of_earlier_rows)],
)
def test_golden_events_of_sinks_are_read_and_written(name: str, events: Callable[[], list[ev.Event]]) -> None:
    golden = json.loads((GOLDEN / name).read_text())
    assert [decode(event) for event in golden] == events()
    assert [json.loads(encode(event)) for event in events()] == golden


def test_a_checkpoint_is_released_when_every_sink_has_it() -> None:
    state = folded(*of_sinks())
    assert (state.last_released, state.sinks_released) == (2, {"warehouse": 3})
    assert [view.status for view in state.checkpoint_views()] == ["released", "released", "completed"]
    assert [dict(view.sinks) for view in state.checkpoint_views()] == [
        {"lake": {"rows": 3}, "warehouse": {"rows": 3}},
        {"lake": {"rows": 4}},
        {"warehouse": {"rows": 9}},
    ]


def test_a_snapshot_keeps_how_far_each_sink_has_released() -> None:
    state = folded(*of_sinks())
    assert state_from_json(json.loads(json.dumps(state_to_json(state)))) == state
    level = folded(*of_sinks(), ev.CheckpointReleased(3, 6.0, {"lake": {"rows": 5}, "warehouse": {"rows": 9}}))
    assert level.sinks_released == {}
    assert "sinks_released" not in state_to_json(level)


def test_a_late_sink_report_does_not_undo_a_release() -> None:
    state = folded(*of_sinks(), ev.SinkReleased("warehouse", 1, 9.0), ev.SinkReleased("lake", 2, 9.0))
    assert state.sinks_released == {"warehouse": 3}


def test_r7_the_last_release_of_a_lagging_sink_is_remembered() -> None:
    """The next release begins where the last one ended. Without its positions it would begin at the first entry."""
    state = folded(completed(1), ev.CheckpointReleased(1, 2.5, {"lake": {"rows": 1}, "warehouse": {"rows": 1}}))
    for number in range(2, 3 * HISTORY):
        completed(number).apply(state)
        ev.SinkReleased("lake", number, 3.0, {"rows": 1}).apply(state)
    assert state.last_released in state.checkpoints
    assert state.last_released in state.releases
    assert state.sinks_released["lake"] in state.checkpoints
    assert len(state.checkpoints) == HISTORY


def test_r7_a_checkpoint_that_is_being_released_is_remembered() -> None:
    state = folded(completed(1), ev.CheckpointReleased(1, 2.5), completed(2))
    for number in range(3, 3 * HISTORY):
        replace(completed(number), releasing=(2,)).apply(state)
    assert 2 in state.checkpoints
    assert len(state.checkpoints) == HISTORY
    done = ev.CheckpointCompleted(9, 1.0, 2.0, "checkpoint", {}, {}, releasing=(2, 5))
    assert json.loads(encode(done))["releasing"] == [2, 5]
    assert decode(json.loads(encode(done))) == done
    assert "releasing" not in json.loads(encode(completed(9)))


def test_releases_with_rows_are_remembered_longer_than_others() -> None:
    """A triggerer that was down for two minutes must still see the rows, even if no rows followed."""
    state = folded(completed(1), ev.CheckpointReleased(1, 2.5, {"lake": {"rows": 3}}))
    for number in range(2, 3 * HISTORY):
        completed(number).apply(state)
        ev.CheckpointReleased(number, 3.0, {"lake": {"rows": 0}}).apply(state)
    assert [(release.checkpoint, release.rows) for release in release_events(state, 0)] == [(1, 3)]
    assert len(state.releases) == HISTORY
    last = 3 * HISTORY - 1
    assert state.last_released == last
    assert last in state.releases
    for number in range(last + 1, last + 1 + 2 * HISTORY):
        completed(number).apply(state)
        ev.CheckpointReleased(number, 3.0, {"lake": {"rows": 1}}).apply(state)
    assert sorted(state.releases) == list(range(last + 1 + HISTORY, last + 1 + 2 * HISTORY))


def test_releases_are_reported_for_one_sink_or_for_all_sinks() -> None:
    """Rows are reported once. A reader of all sinks takes the manifests, or the ledger, up to the reported
    checkpoint."""
    state = folded(*of_sinks())
    assert [(release.checkpoint, release.rows) for release in release_events(state, 0, "warehouse")] == [(1, 3), (3, 9)]
    assert [(release.checkpoint, release.rows) for release in release_events(state, 0)] == [(1, 6), (2, 4)]
    ev.CheckpointReleased(3, 6.0, {"lake": {"rows": 5}}).apply(state)
    assert [(release.checkpoint, release.rows) for release in release_events(state, 2)] == [(3, 14)]
