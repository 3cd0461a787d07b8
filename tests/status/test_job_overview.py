"""The overview of a job: its form, its facts and its problems. Needs no Spark."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.coordinator.protocol.reports import QueryMeasured
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition, SinkDefinition, SourceDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.progress import BatchProgress, InputProgress, Snapshot
from airflow_provider_ckpt.status.job_overview import JobOverview, read_overview, write_overview
from airflow_provider_ckpt.status.live_facts import RATE_WINDOW, Counter, LiveFacts
from airflow_provider_ckpt.status.overview_builder import DriverFacts, job_overview
from airflow_provider_ckpt.storage.errors import MalformedDocumentError
from airflow_provider_ckpt.storage.opening import open_storage

GOLDEN = Path(__file__).parents[1] / "golden" / "job-overview-v1.json"
NOON = 1_772_020_800.0
CLEAN, FIRST = SubtaskId("clean/0"), AttemptId(1, 0, "a")
VERTEX = JobVertex("clean", ("history", "live", "clean"), ("history", "live"), ("history",), ("lake", "shop"), False)
DEFINITION = JobDefinition(
    mode="streaming",
    sources={"history": SourceDefinition(True, None), "live": SourceDefinition(False, None)},
    vertices={},
    sinks={
        "lake": SinkDefinition("each", {"type": "airflow_provider_ckpt.sinks.file.file_sink.FileSink"}),
        "shop": SinkDefinition("each", {"type": "airflow_provider_ckpt.sinks.postgres.postgres_sink.PostgresSink"}),
    },
)


def running_job(*more: ev.Event) -> JobState:
    """Return the state of a job with 40 files of history, whose sink ``shop`` lags one checkpoint behind."""
    done = {CLEAN: Snapshot(3, 1, late_rows=2, malformed={"live": 1})}
    state = JobState("orders")
    for event in (
        ev.EpochClaimed(1, "manual", state.worker, NOON),
        ev.PlanRecorded(JobGraph((VERTEX,), ()), {}, NOON, DEFINITION),
        ev.SourceFrozen("history", "frozen/history.json", 40, NOON),
        ev.StatusChanged(JobStatus.RUNNING, NOON + 2),
        ev.CheckpointTriggered(1, NOON + 30),
        ev.CheckpointCompleted(1, NOON + 30, NOON + 31, "checkpoint", done, {}),
        ev.CheckpointReleased(1, NOON + 32, {"lake": {"rows": 10, "files": 1}, "shop": {"rows": 4}}),
        ev.CheckpointTriggered(2, NOON + 60),
        ev.CheckpointCompleted(2, NOON + 60, NOON + 61, "checkpoint", done, {}),
        ev.SinkReleased("lake", 2, NOON + 62, {"rows": 5, "files": 1}),
        *more,
    ):
        event.apply(state)
    return state


def measured(rows: int, left: int, batch: int, attempt: AttemptId = FIRST) -> QueryMeasured:
    inputs = {"history": InputProgress(rows, left), "live": InputProgress(3, None, 70)}
    return QueryMeasured(1, CLEAN, attempt, BatchProgress(batch, 1.5, 1.0, rows), inputs)


def facts_of_two_batches() -> LiveFacts:
    facts = LiveFacts(NOON + 1)
    facts.measured(measured(100, 38, 0), 10.0)
    facts.measured(measured(300, 30, 1), 20.0)
    facts.release_failed("shop", "the table is locked", NOON + 63)
    facts.release_failed("shop", "the table is still locked", NOON + 65)
    return facts


def overview_of_running_job() -> JobOverview:
    driver = DriverFacts(
        facts_of_two_batches(),
        20.0,
        {CLEAN: "running"},
        NOON + 90,
        interval=5.0,
        options={"checkpoint_interval": "30.0"},
    )
    return job_overview(running_job(), NOON + 70, driver)


def test_a_source_shows_its_position_its_rate_and_the_time_that_is_left() -> None:
    history, live = overview_of_running_job().sources
    assert (history.unit, history.done, history.total, history.left) == ("files", 10, 40, 30)
    assert (history.rows, history.rows_per_second) == (300, 20.0)
    assert history.seconds_left == pytest.approx(30 / 0.8)
    assert (live.unit, live.behind, live.rows, live.malformed_rows) == ("records", 70, 3, 1)


def test_a_query_and_the_sinks_show_what_they_did_and_what_fails() -> None:
    overview = overview_of_running_job()
    (clean,), (lake, shop) = overview.vertices, overview.sinks
    assert (clean.batch, clean.batch_seconds, clean.rows, clean.late_rows) == (1, 1.5, 303, 2)
    assert [(subtask.subtask, subtask.status) for subtask in clean.subtasks] == [(CLEAN, "running")]
    assert (lake.kind, lake.released, lake.counts, lake.waiting) == ("file", 2, {"files": 2, "rows": 15}, 0)
    assert (lake.released_at, lake.last_counts) == (NOON + 62, {"rows": 5, "files": 1})
    assert (shop.kind, shop.released, shop.counts, shop.waiting) == ("postgres", 1, {"rows": 4}, 1)
    assert (shop.failing_since, shop.failure) == (NOON + 63, "the table is still locked")


def test_counts_of_releases_add_up_and_a_repeated_release_does_not() -> None:
    again = ev.SinkReleased("lake", 2, NOON + 70, {"rows": 5, "files": 1})
    all_released = ev.CheckpointReleased(2, NOON + 71, {"lake": {"rows": 5, "files": 1}, "shop": {"rows": 1}})
    counts = running_job(again, all_released).released_counts
    assert counts == {"lake": {"files": 2, "rows": 15}, "shop": {"rows": 5}}


def test_the_next_attempt_of_a_query_adds_to_the_rows_of_the_previous_one() -> None:
    facts = facts_of_two_batches()
    facts.measured(measured(50, 29, 2, AttemptId(1, 1, "b")), 25.0)
    facts.measured(measured(80, 28, 3, AttemptId(1, 1, "b")), 26.0)
    assert facts.queries[CLEAN].inputs["history"].rows.total == 380


def test_a_rate_counts_from_the_last_sample_before_its_window_and_falls_to_zero() -> None:
    counter = Counter()
    assert counter.per_second(0.0) is None
    for second in range(0, 200, 20):
        counter.rise_to(second * 5, float(second))
    assert counter.per_second(180.0) == 5.0
    assert counter.per_second(180.0 + RATE_WINDOW + 1) == 0.0


def test_problems_name_the_worst_first_with_the_next_step() -> None:
    first, *others = overview_of_running_job().problems
    assert (first.severity, first.subject) == ("error", "shop")
    assert "since 2026-02-25 12:01:03Z: the table is still locked" in first.message
    assert "tried again" in first.advice
    assert [(problem.severity, problem.subject) for problem in others] == [("warning", "clean"), ("warning", "live")]
    assert others[0].message == "dropped 2 late rows since the job began"


def test_a_closed_gate_is_no_error() -> None:
    facts = LiveFacts(NOON)
    facts.release_held("shop", "lake")
    overview = job_overview(running_job(), NOON + 70, DriverFacts(facts, 1.0, {}))
    held = next(problem for problem in overview.problems if problem.subject == "shop")
    assert (held.severity, held.message) == ("info", "the gate of lake is closed, 1 checkpoint not released")
    facts.released("shop")
    assert job_overview(running_job(), NOON + 70, DriverFacts(facts, 1.0, {})).sinks[1].held_by is None


def test_without_a_driver_the_overview_has_what_the_journal_knows_and_the_last_measurements() -> None:
    failed = ev.StatusChanged(JobStatus.FAILED, NOON + 80, "ValueError: no number")
    overview = job_overview(running_job(failed), NOON + 100)
    assert (overview.measured_at, overview.sources[0].rows, overview.sources[0].total) == (None, None, 40)
    merged = overview.with_measurements_of(overview_of_running_job())
    assert (merged.measured_at, merged.driver_since) == (NOON + 70, NOON + 1)
    assert (merged.sources[0].rows, merged.sources[0].done, merged.vertices[0].batch) == (300, 10, 1)
    assert merged.sources[0].rows_per_second is None, "nothing runs"
    assert merged.problems[0].message == "ValueError: no number"
    assert "--resume-failed: the job resumes after checkpoint 2" in merged.problems[0].advice


def test_the_golden_overview_is_read_and_written_again(tmp_path: Path) -> None:
    storage = open_storage(tmp_path.as_uri())
    overview = overview_of_running_job()
    write_overview(storage, overview)
    assert read_overview(storage, "orders") == overview
    assert json.loads((tmp_path / "orders/overview/current.json").read_text()) == json.loads(GOLDEN.read_text())
    assert read_overview(storage, "other") is None


def test_a_damaged_overview_is_refused_with_its_name(tmp_path: Path) -> None:
    storage = open_storage(tmp_path.as_uri())
    write_overview(storage, overview_of_running_job())
    file = tmp_path / "orders/overview/current.json"
    file.write_text(file.read_text().replace('"epoch": 1', '"epoch": 9'))
    with pytest.raises(MalformedDocumentError, match=r"orders/overview/current\.json"):
        read_overview(storage, "orders")


def test_texts_of_errors_are_redacted_and_names_are_not() -> None:
    overview = replace(overview_of_running_job(), cause="password orders is wrong")
    redacted = overview.redacted(lambda text: text.replace("locked", "***").replace("orders", "***"))
    assert (redacted.job_id, redacted.cause) == ("orders", "password *** is wrong")
    assert redacted.sinks[1].failure == "the table is still ***"
    assert "***" in redacted.problems[0].message
    assert redacted.sinks[0] == overview.sinks[0]


def test_the_keys_of_the_overview_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text("utf-8")
    table = page.partition("## The overview of a job")[2].splitlines()
    rows = [line.split("|")[1] for line in table if line.startswith("| `")]
    documented = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(documented) == sorted(["format", "version", *(field.name for field in fields(JobOverview))])
