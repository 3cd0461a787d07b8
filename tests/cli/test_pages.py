"""The page, the graph and the log of a job in the terminal. Needs no Spark."""

from __future__ import annotations

import io
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from airflow_provider_ckpt.cli import main, quantities
from airflow_provider_ckpt.cli.overview_page import page
from airflow_provider_ckpt.journal.events import StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.status.job_overview import EventOverview, JobOverview, write_overview
from airflow_provider_ckpt.storage.opening import open_storage
from tests.cli.conftest import NOON
from tests.status.test_job_overview import overview_of_running_job
from tests.support.journals import write_events


def shown(overview: JobOverview, width: int = 160) -> str:
    console = Console(width=width, file=io.StringIO(), record=True, color_system=None)
    console.print(page(overview, overview.at + 5))
    return console.export_text()


def test_the_page_answers_how_far_how_fast_and_what_fails() -> None:
    lines = [re.split("  +", line.strip()) for line in shown(overview_of_running_job()).splitlines()]
    assert lines[0][:2] == ["orders", "RUNNING"]
    assert any(line[0].startswith("✗ shop has failed to release since") for line in lines)
    history = next(line for line in lines if line[0] == "history")
    assert history[1] == "10 / 40 files (25 %)"
    assert history[3:5] == ["20 rows/s", "38 s left"]
    live = next(line for line in lines if line[0] == "live")
    assert live[-2] == "70 records behind"
    lake, shop = (next(line for line in lines if line[0] == uid) for uid in ("lake", "shop"))
    assert lake[1:] == ["file", "15 rows", "13 s ago (5 rows, checkpoint 2)", "✓"]
    assert shop[-1] == "✗ failing for 12 s"


def test_problems_come_before_everything_else() -> None:
    text = shown(overview_of_running_job())
    assert text.index("✗ shop") < text.index("! clean dropped 2 late rows") < text.index("SOURCE")


def test_a_narrow_page_wraps_and_leaves_nothing_out() -> None:
    text = shown(overview_of_running_job(), width=60)
    assert max(map(len, text.splitlines())) <= 60
    assert "…" not in text
    assert {"history", "live", "clean", "lake", "shop", "rows/s", "completed"} <= set(text.split())


def test_text_of_others_is_no_markup_and_no_control_character() -> None:
    overview = overview_of_running_job()
    hostile = replace(overview.sinks[1], uid="[red]x\x1b[2J")
    text = shown(replace(overview, sinks=(hostile,)))
    assert "[red]x" in text
    assert "\x1b" not in text


def test_a_hostile_overview_is_shown() -> None:
    overview = overview_of_running_job()
    (vertex,), (checkpoint, *_) = overview.vertices, overview.checkpoints
    hostile = replace(
        overview,
        status="\x1b[2Jgone",
        vertices=(replace(vertex, operators=("\x1b[2J",), uid="\x1b[2J"),),
        checkpoints=(replace(checkpoint, triggered_at=1e300),),
    )
    text = shown(hostile)
    assert "\x1b" not in text
    assert "1e+300 s since 1970" in text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (18_400, "18.4k"), (999_960, "1.0M"), (41_000_000, "41.0M"), (2.5e15, "2500.0T")],
)
def test_a_number_is_short(number: float, text: str) -> None:
    assert quantities.short(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0.0 s"), (4.21, "4.2 s"), (90, "90 s"), (150, "2 min"), (7560, "2 h 06 min"), (273_600, "3 d 4 h")],
)
def test_a_span_has_two_units(seconds: float, text: str) -> None:
    assert quantities.span(seconds) == text


def test_a_slow_rate_is_not_shown_as_zero() -> None:
    assert quantities.per_second(0.1) == "6 rows/min"
    assert quantities.per_second(0.0) == "0 rows/s"
    assert quantities.per_second(None) is None


def test_show_reads_the_overview_of_the_driver(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh = replace(overview_of_running_job(), at=time.time(), measured_at=time.time())
    write_overview(open_storage(empty_root), fresh)
    assert main(["show", "orders", "--root", empty_root]) == 0
    assert "10 / 40 files (25 %)" in capsys.readouterr().out
    main(["show", "orders", "--root", empty_root, "--json"])
    assert json.loads(capsys.readouterr().out)["overview"]["sources"][0]["done"] == 10


def test_a_damaged_overview_is_a_problem_and_no_failure(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(empty_root, "orders", "overview", "current.json")
    file.parent.mkdir()
    file.write_text("{")
    assert main(["show", "orders", "--root", empty_root]) == 0
    out = capsys.readouterr().out
    assert "overview/current.json" in out
    assert "last completed  3" in out


def test_an_old_overview_gives_way_to_the_journal(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_overview(open_storage(empty_root), overview_of_running_job())
    write_events(running, StatusChanged(JobStatus.FAILED, NOON + 900, "ValueError: no number"))
    main(["show", "orders", "--root", empty_root])
    out = capsys.readouterr().out
    assert "FAILED" in out.splitlines()[0]
    assert "✗ orders ValueError: no number" in out
    assert "checkpoint 3" in out


def test_watch_ends_with_the_job(running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_events(running, StatusChanged(JobStatus.FINISHED, NOON + 900))
    assert main(["show", "orders", "--root", empty_root, "--watch"]) == 0
    assert "orders   FINISHED" in capsys.readouterr().out


def test_the_graph_is_printed_as_text_and_for_mermaid(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", "orders", "--root", empty_root]) == 0
    assert capsys.readouterr().out == "history, live → daily → lake\n"
    assert main(["graph", "orders", "--root", empty_root, "--mermaid"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "flowchart LR",
        '  n0(["history"])',
        '  n1(["live"])',
        '  n2["daily"]',
        '  n3[("lake")]',
        "  n0 --> n2",
        "  n1 --> n2",
        "  n2 --> n3",
    ]


def test_the_log_prints_each_event_once_and_ends_with_the_job(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    events = (EventOverview(NOON, "started", "job orders starts"), EventOverview(NOON + 1, "running", "it runs\x1b"))
    write_overview(open_storage(empty_root), replace(overview_of_running_job(), events=events))
    write_events(running, StatusChanged(JobStatus.STOPPED, NOON + 900))
    assert main(["log", "orders", "--root", empty_root, "--follow"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "2026-02-25 06:13:20Z  job orders starts"
    assert "\x1b" not in second
    main(["log", "orders", "--root", empty_root, "--json"])
    assert [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()] == ["started", "running"]
