"""Codec of events, and the state that a journal folds into."""

from __future__ import annotations

import json
import types
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import pytest

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.errors import UnknownEventError
from airflow_provider_ckpt.journal.event_codec import decode, encode
from airflow_provider_ckpt.journal.kinds.event import HISTORY
from airflow_provider_ckpt.journal.kinds.sources import REMEMBERED
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.model.errors import DamagedFormError, UnknownFormError
from airflow_provider_ckpt.model.file_status import ChangedFile
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, NewerFormatError
from tests.journal.samples import (
    GRAPH,
    WORKER,
    folded,
    of_a_deletion,
    of_deployment,
    of_files,
    of_reconfiguration,
    of_recovery,
    of_rescaled_workers,
    of_rescaling,
    of_restarts,
    of_sinks,
    of_splits,
    one_event_of_each,
    plan_with_timers,
    random_events,
)
from tests.support.definitions import STREAMING

outcome_of = RequestOutcome.parse

GOLDEN = Path(__file__).parent.parent / "golden" / "job-state-v1" / "state.json"


def test_every_event_survives_its_json() -> None:
    events = [
        *one_event_of_each(),
        *of_splits(),
        *of_files(),
        *of_restarts(),
        *of_sinks(),
        *of_recovery(),
        *of_rescaling(),
        *of_rescaled_workers(),
        *of_reconfiguration(),
        *of_a_deletion(),
        *of_deployment(),
        ev.StateSnapshot(folded(*one_event_of_each()), 3.0),
    ]
    assert {type(event) for event in events} == set(get_args(ev.Event))
    for event in events:
        assert decode(json.loads(encode(event))) == event


def test_a_mapping_that_is_no_dict_is_encoded() -> None:
    event = ev.PlanRecorded(GRAPH, types.MappingProxyType({"daily": "{}"}), 1.0, STREAMING)
    assert json.loads(encode(event))["schemas"] == {"daily": "{}"}


def test_changed_files_are_counted_and_the_last_reports_remembered() -> None:
    changed = [ev.SourceFilesChanged("live", (ChangedFile(f"/in/{n}", 1, 3),), 1, 2, float(n)) for n in range(30)]
    state = folded(*changed, ev.SourceFilesChanged("history", (), 5, 0, 40.0), *of_files())
    assert state.changed_counts == {"live": {"files": 33, "bytes": 80}, "history": {"files": 5, "bytes": 0}}
    assert state.changed_file_count() == 38
    assert len(state.changed_files) == REMEMBERED
    assert {"/in/29", "/in/a", "/in/b"} <= state.known_changed()
    assert state.forgotten_files == ["/in/c", "s3a://b/in/d"]


@pytest.mark.parametrize(
    ("bound", "waits"),
    [
        ("time mode ProcessingTime", ["daily"]),
        ("timeout ProcessingTimeTimeout", ["daily"]),
        ("timeout EventTimeTimeout", []),
        ("time mode NoTime", []),
    ],
)
def test_a_query_with_processing_timers_is_known_until_its_end(bound: str, waits: list[str]) -> None:
    state = folded(plan_with_timers(bound))
    assert state.with_timers() == waits
    ev.SubtaskEndOfData(SubtaskId("daily/0"), "t1", 1.0).apply(state)
    assert state.with_timers() == []


def test_an_unknown_event_names_its_type_and_the_release_to_upgrade_to() -> None:
    with pytest.raises(UnknownEventError, match=r"'Teleported'.*upgrade airflow_provider_ckpt to 9\.1\.0"):
        decode({"type": "Teleported", "at": 1.0}, "9.1.0")


@pytest.mark.parametrize(
    "data",
    [
        {"type": "StatusChanged", "at": 1.0, "status": "X", "colour": 1},
        {"type": "CheckpointTriggered", "checkpoint": 1, "at": 1.0, "kind": "wish"},
        {"type": "EpochClaimed", "epoch": 1, "attempt": "t", "worker": {"planet": "Mars"}, "at": 1.0},
    ],
)
def test_an_event_with_fields_or_values_of_a_later_release_is_unknown(data: dict[str, object]) -> None:
    with pytest.raises(UnknownEventError, match=r"upgrade airflow_provider_ckpt"):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [
        {"type": "StatusChanged", "status": "RUNNING"},
        {"type": "StatusChanged", "status": "RUNNING", "at": "noon"},
        {"type": "EpochClaimed", "epoch": 1, "attempt": "t", "worker": "host", "at": 1.0},
        {"type": "LateFilesFound", "uid": "history", "paths": "a", "read": True, "at": 1.0},
        {"type": 3},
        {},
    ],
)
def test_a_malformed_event_is_damage(data: dict[str, object]) -> None:
    with pytest.raises(DamagedFormError, match=f"^(of type )?{data.get('type')}"):
        decode(data)


def test_an_event_with_an_unknown_field_names_the_field() -> None:
    worker = {"planet": "Mars"}
    with pytest.raises(
        UnknownEventError, match=r"an event EpochClaimed: worker: Worker with the unknown fields \['planet'\]"
    ):
        decode({"type": "EpochClaimed", "epoch": 1, "attempt": "t", "worker": worker, "at": 1.0})


def test_the_text_of_an_event_is_stable() -> None:
    """The golden copies compare values; this test also compares the order and the spelling."""
    assert encode(ev.EpochClaimed(1, "t", Worker(host="h", pid=4), 1.0)) == (
        '{"type": "EpochClaimed", "epoch": 1, "attempt": "t", "worker": {"host": "h", "boot_id": null, "pid": 4, '
        '"started": null, "application_id": null}, "at": 1.0}'
    )
    assert encode(ev.Restored(1, {}, 1.0)) == '{"type": "Restored", "checkpoint": 1, "dropped": {}, "at": 1.0}'
    snapshot = Snapshot(7, None, {"live": "{}"}, ended=("rates",))
    completed = ev.CheckpointCompleted(2, 1.0, 2.0, "final", {SubtaskId("daily/0"): snapshot}, {"daily": "finished"})
    assert encode(completed) == (
        '{"type": "CheckpointCompleted", "checkpoint": 2, "triggered_at": 1.0, "at": 2.0, "kind": "final", '
        '"subtasks": {"daily/0": {"position": 7, "batch_id": null, "offsets": {"live": "{}"}, "inputs": {}, '
        '"watermark": null, "ended": ["rates"], "finished": false, "finished_on_restore": false}}, '
        '"operators": {"daily": "finished"}}'
    )


def test_a_status_of_a_later_release_is_unknown() -> None:
    with pytest.raises(UnknownEventError, match=r"'SUSPENDED' is no JobStatus.*upgrade .* to 9\.1\.0"):
        decode({"type": "StatusChanged", "status": "SUSPENDED", "at": 1.0}, "9.1.0")
    with pytest.raises(UnknownFormError, match="'SUSPENDED' is no JobStatus"):
        state_from_json({**json.loads(GOLDEN.read_text()), "status": "SUSPENDED"})


@pytest.mark.parametrize("status", [None, *JobStatus])
def test_a_status_survives_the_json_of_the_state(status: JobStatus | None) -> None:
    state = JobState("orders", status=status)
    assert state_from_json(json.loads(json.dumps(state_to_json(state)))).status is status


def test_one_event_of_each_type_is_folded_into_the_state() -> None:
    state = folded(*one_event_of_each())
    assert (state.epoch, state.attempt, state.worker) == (1, "manual~t1", WORKER)
    assert (state.status, state.cause) == ("RESTARTING", "a subtask failed: disk full")
    assert (state.last_triggered, state.last_completed, state.last_released, state.pending) == (3, 2, 2, 3)
    assert (state.completed_count, state.aborted_count) == (1, 1)
    assert state.aborted == {1: "CHECKPOINT_EXPIRED"}
    assert sorted(state.frozen) == ["history", "rates"]
    assert state.ended == {"daily": {"history": 3, "rates__daily": 3}, "rates": {"rates": 0}}
    assert state.dropped == {"daily": {"history": 4}}
    assert (state.end_of_data, state.finished) == ({"rates/0"}, {"rates/0"})
    assert state.answered == {"r-1"}
    assert [report.paths for report in state.late_files] == [("a.parquet", "ü b.parquet")]


def test_r4_a_restore_undoes_ends_after_the_checkpoint() -> None:
    state = folded(*one_event_of_each())
    ev.SubtaskFinished(SubtaskId("daily/0"), "t1", 140.0).apply(state)
    ev.RequestAnswered("r-2", "drain", outcome_of("accepted"), 141.0).apply(state)
    ev.Restored(2, {"daily": {"early": 1}}, 142.0).apply(state)
    assert state.ended == {"daily": {"rates__daily": 2}, "rates": {"rates": 0}}
    assert state.dropped == {"daily": {"early": 1}}
    assert (state.end_of_data, state.finished) == ({"rates/0"}, {"rates/0"})
    assert not state.draining
    assert state.answered == {"r-1", "r-2"}


def test_r9_a_late_report_does_not_undo_a_release() -> None:
    """A repeated answer of an earlier release must not make the later one wait for its release again."""
    state = folded(*one_event_of_each())
    assert state.last_released == 2
    ev.CheckpointReleased(1, 150.0, {}).apply(state)
    assert state.last_released == 2


def test_r12_a_stop_ends_a_drain_for_the_next_run() -> None:
    state = folded(*one_event_of_each())
    ev.RequestAnswered("r-2", "drain", outcome_of("accepted"), 141.0).apply(state)
    ev.StatusChanged(JobStatus.RESTARTING, 142.0).apply(state)
    assert state.draining
    ev.StatusChanged(JobStatus.STOPPED, 143.0).apply(state)
    assert not state.draining


def test_outcomes_of_requests_are_remembered_when_they_are_final() -> None:
    state = folded(*one_event_of_each())
    for text in ("accepted", "already stopping", "already draining"):
        ev.RequestAnswered("r-2", "stop", outcome_of(text), 141.0).apply(state)
    assert state.outcomes == {}
    ev.RequestAnswered("r-2", "stop", outcome_of("failed: no savepoint"), 142.0).apply(state)
    ev.RequestAnswered("r-3", "drain", outcome_of("refused: the job is being stopped"), 143.0).apply(state)
    assert state.outcomes == {
        "r-2": RequestOutcome.failed("no savepoint"),
        "r-3": RequestOutcome.refused("the job is being stopped"),
    }
    assert state_from_json(json.loads(json.dumps(state_to_json(state)))) == state
    for number in range(HISTORY):
        ev.RequestAnswered(f"s-{number}", "stop", outcome_of("completed: savepoint 1 is released"), 144.0).apply(state)
    assert list(state.outcomes) == [f"s-{number}" for number in range(HISTORY)]


def test_the_golden_state_with_outcomes_is_read_and_written() -> None:
    golden = json.loads(GOLDEN.with_name("state-with-outcomes.json").read_text())
    state = state_from_json(golden)
    assert state.outcomes == {"r-1": RequestOutcome.completed("savepoint 2 is released")}
    assert state_to_json(state) == golden


def test_a_restore_from_a_forgotten_checkpoint_can_be_replayed() -> None:
    state = folded(*one_event_of_each(), ev.Restored(1, {}, 142.0))
    assert (state.ended, state.dropped, state.finished) == ({}, {}, set())


def test_introduced_and_abandoned_operators_survive_json() -> None:
    later = JobGraph((replace(GRAPH.vertices[0], operators=("history", "weekly")),), ())
    state = folded(
        *one_event_of_each(), ev.Restored(2, {}, 1.0, from_scratch=True), ev.PlanRecorded(later, {}, 2.0, STREAMING)
    )
    assert (state.from_scratch_epoch, state.introduced) == (1, {"weekly": (1, state.last_completed)})
    assert state.abandoned == {"live", "daily", "rates"}
    assert state_from_json(json.loads(json.dumps(state_to_json(state)))) == state


def test_a_vertex_is_finished_when_its_last_subtask_is() -> None:
    state = folded(ev.JobCreated("orders", GRAPH, "streaming", SubmittedOptions(), 1.0))
    assert state.finished_operators() == []
    ev.SubtaskFinished(SubtaskId("daily/0"), "t", 2.0).apply(state)
    assert state.finished_operators() == []
    ev.SourceDropped("daily", "history", 1, 2.0).apply(state)
    ev.SourceEnded("daily", "rates__daily", 1, 2.0).apply(state)
    assert state.finished_operators() == ["history"]
    ev.SubtaskFinished(SubtaskId("daily/1"), "t", 3.0).apply(state)
    assert state.finished_operators() == ["daily", "history", "lake", "live", "warehouse"]


def test_the_view_has_the_result_of_each_checkpoint() -> None:
    state = folded(*one_event_of_each())
    views = {view.checkpoint: view for view in state.checkpoint_views()}
    assert [(number, view.status, view.kind) for number, view in views.items()] == [
        (1, "aborted", "checkpoint"),
        (2, "released", "checkpoint"),
        (3, "in progress", "savepoint"),
    ]
    assert views[1].reason == "CHECKPOINT_EXPIRED"
    assert views[2].duration_ms == 1500
    assert views[2].finished == ("rates",)
    assert views[2].sinks == {"lake": {"files": 3, "rows": 40}}
    ev.EpochClaimed(2, "t2", Worker(), 200.0).apply(state)
    assert state.checkpoint_views()[-1].status == "aborted"
    assert state.checkpoint_views()[-1].reason == "the driver was lost"


def test_a_release_covers_earlier_checkpoints() -> None:
    state = folded()
    for number in (1, 2, 3):
        ev.CheckpointCompleted(number, 1.0, 2.0, "checkpoint", {}, {}).apply(state)
    ev.CheckpointReleased(2, 3.0).apply(state)
    assert [view.status for view in state.checkpoint_views()] == ["released", "released", "completed"]


def test_the_state_stays_small_over_months() -> None:
    state = folded()
    for number in range(1, 3 * HISTORY):
        ev.CheckpointTriggered(2 * number, 1.0).apply(state)
        ev.CheckpointAborted(2 * number, "expired", 1.0).apply(state)
        ev.CheckpointTriggered(2 * number + 1, 1.0).apply(state)
        ev.CheckpointCompleted(2 * number + 1, 1.0, 2.0, "checkpoint", {}, {}).apply(state)
        ev.CheckpointReleased(2 * number + 1, 3.0).apply(state)
    assert [len(h) for h in (state.checkpoints, state.aborted, state.releases)] == [HISTORY] * 3
    assert len(state.triggered) <= HISTORY
    assert max(state.checkpoints) == state.last_completed == 6 * HISTORY - 1
    assert state.completed_count == state.aborted_count == 3 * HISTORY - 1


@pytest.mark.parametrize("seed", range(20))
def test_a_snapshot_at_any_entry_keeps_the_state(seed: int) -> None:
    events = random_events(seed, 300)
    cut = seed * 15
    plain = folded(*events)
    state = folded(*events[:cut])
    taken = decode(json.loads(encode(ev.StateSnapshot(state, 1.0))))
    again = folded(taken, *events[cut:])
    assert again == plain, f"seed {seed}"
    assert state_from_json(json.loads(json.dumps(state_to_json(plain)))) == plain, f"seed {seed}"


def test_the_golden_state_is_read_and_written() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert state_from_json(golden) == folded(*one_event_of_each())
    assert json.dumps(state_to_json(folded(*one_event_of_each()))) == json.dumps(golden)  # the order of the keys, too


def test_the_document_has_every_journaled_field_of_the_state() -> None:
    begun = [
        *one_event_of_each(),
        ev.Restored(2, {}, 1.0, from_scratch=True),
        *of_splits(),
        *of_restarts(),
        *of_files(),
    ]
    state = folded(*begun, *of_reconfiguration(), *of_deployment())
    state.outcomes, state.introduced, state.abandoned = {"r-1": outcome_of("failed")}, {"daily": (1, 2)}, {"daily"}
    state.sinks_released, state.reconfigured_for, state.driver_since = {"lake": 3}, "r-2", 1
    state.deletion, state.running_since = ev.DeletionBegun(None, 1.0), 1.0
    state.reconciled = ev.JobReconciled(2, (), {}, (), 1.0)
    names = {field.name for field in fields(JobState)} - {"damage", "position", "retaken"}
    assert state_to_json(state).keys() == names | {"format", "version"}


def test_a_state_of_another_format_or_version_is_refused() -> None:
    golden = json.loads(GOLDEN.read_text())
    with pytest.raises(NewerFormatError):
        state_from_json({**golden, "version": 2})
    with pytest.raises(MalformedDocumentError):
        state_from_json({**golden, "format": "airflow-provider-ckpt/other"})
    del golden["plan"]
    with pytest.raises(MalformedDocumentError, match="plan"):
        state_from_json(golden)
