"""Refusals before anything is written, and their reports: exit code, status line, the user's traceback."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.journal.events import StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.spark.main import main, run_job
from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.root import open_root
from tests.spark.harness import Line, World

pytestmark = pytest.mark.slow

JOB = """
from pyspark.sql import functions as F
from airflow_provider_ckpt import FileSink, Job

job = Job("file")

@job.source(bounded=True)
def history(read):
    return read.schema("id long, k long").parquet("{base}/history")

@job.transform(inputs=[history])
def doubled(rows):
    {body}

job.sink("out", doubled, FileSink("{base}/out"))
"""
GOOD = 'return rows.withColumn("twice", F.col("id") * 2)'


@pytest.fixture(autouse=True)
def _driver_exists(spark: SparkSession) -> None:
    pass


def job_file(world: World, body: str = GOOD) -> str:
    path = world.base / "file_job.py"
    path.write_text(JOB.format(base=world.base, body=body))
    return f"{path}:job"


def run(world: World, reference: str, storage_options: dict[str, Any] | None = None, **given: Any) -> tuple[int, Line]:
    lines: list[Line] = []
    options = world.options(job=reference, **given)
    location = Location(options.root, storage_options or {})
    code = run_job(RunRequest(options, location, lambda line: lines.append(line.to_json())))
    return code, lines[-1]


def test_a_job_from_a_file_runs_only_once(world: World) -> None:
    expected = world.put_ids("history", 2, 3)
    code, line = run(world, job_file(world))
    assert (code, line["kind"], line["status"]) == (ExitCode.FINISHED, "finished", "FINISHED")
    assert world.released_ids() == sorted(expected)
    before = world.everything_under_root()
    code, line = run(world, job_file(world))
    assert (code, line["kind"]) == (ExitCode.FINISHED, "finished")
    assert "nothing runs again" in line["message"]
    assert world.everything_under_root() == before


def test_a_reference_that_fails_to_import_shows_the_users_traceback(world: World) -> None:
    path = world.base / "broken_job.py"
    path.write_text(textwrap.dedent("def helper():\n    return {}['missing']\n\njob = helper()\n"))
    code, line = run(world, f"{path}:job")
    assert (code, line["kind"]) == (ExitCode.REFUSED, "refused")
    assert "KeyError" in line["traceback"]
    assert f'{path}", line 2, in helper' in line["traceback"]
    assert world.everything_under_root() == []


@pytest.mark.parametrize("reference", ["nowhere.py:job", "no.such.module:job", "job.py"])
def test_an_unresolvable_reference_is_refused(world: World, reference: str) -> None:
    code, line = run(world, reference)
    assert (code, line["kind"]) == (ExitCode.REFUSED, "refused")
    assert reference in line["message"]
    assert world.everything_under_root() == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", "returned NoneType"),
        ("raise ValueError('no such shop')", "ValueError: no such shop"),
        ("return rows.select('missing')", "missing"),
        ("raise SystemExit(0)", "SystemExit: 0"),
    ],
)
def test_a_failing_function_is_refused_before_anything_is_written(world: World, body: str, message: str) -> None:
    world.put_ids("history", 1, 3)
    code, line = run(world, job_file(world, body))
    assert (code, line["kind"]) == (ExitCode.REFUSED, "refused")
    assert message in line["message"]
    assert world.everything_under_root() == []
    assert world.released() == []


def test_a_sink_that_calls_sys_exit_fails_the_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put_ids("history", 1, 3)
    monkeypatch.setattr(
        "airflow_provider_ckpt.sinks.file.bound_file_sink.BoundFileSink.check_rows", lambda *_: sys.exit(0)
    )
    code, line = run(world, job_file(world))
    assert (code, line["kind"]) == (ExitCode.FAILED, "failed")
    assert line["message"] == "a call of sys.exit(0) ended the driver before the end of the job"
    assert "sys.exit(0)" in line["traceback"]
    assert world.released() == []


def test_an_unwritable_root_is_reported_before_the_start(world: World) -> None:
    world.put_ids("history", 1, 3)
    (world.base / "file").write_text("no folder")
    for root in ("/proc/ckpt", str(world.base / "file" / "root")):
        code, line = run(world, job_file(world), root=root)
        assert code in (ExitCode.FAILED, ExitCode.TERMINAL)
        assert line["kind"] == "failed"
        assert root in line["message"]
    assert world.released() == []


def test_an_unreachable_root_is_retryable(world: World) -> None:
    world.put_ids("history", 1, 3)
    options = {
        "key": "k",
        "secret": "s3cr3t",
        "endpoint_url": "http://127.0.0.1:9",
        "config_kwargs": {"retries": {"max_attempts": 1}, "connect_timeout": 1},
    }
    code, line = run(world, job_file(world), options, root="s3://bucket/ckpt")
    assert (code, line["kind"], line["terminal"]) == (ExitCode.FAILED, "failed", False)
    assert "s3cr3t" not in json.dumps(line)


@pytest.mark.parametrize(
    "marker",
    [
        '{"format": "somebody-else/root", "version": 1}',
        "not json at all",
        '{"format": "airflow-provider-ckpt/root", "version": 99}',
    ],
    ids=["another format", "garbage", "newer"],
)
def test_a_foreign_root_is_refused_and_unchanged(world: World, marker: str) -> None:
    world.put_ids("history", 1, 3)
    world.root.mkdir()
    (world.root / "ckpt-root.json").write_text(marker)
    code, line = run(world, job_file(world))
    is_newer = '"version": 99' in marker  # the root is valid, but this release is too old for it
    assert (code, line["kind"]) == ((ExitCode.TERMINAL, "failed") if is_newer else (ExitCode.REFUSED, "refused"))
    assert world.everything_under_root() == ["ckpt-root.json"]
    assert (world.root / "ckpt-root.json").read_text() == marker


def test_an_illegal_job_id_is_refused(world: World) -> None:
    code, line = run(world, job_file(world), job_id="../escape")
    assert (code, line["kind"]) == (ExitCode.REFUSED, "refused")
    assert world.everything_under_root() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint_intervall": "3s"}, "checkpoint_interval"),
        ({"checkpoint_interval": "soon"}, "soon"),
        ({"stop_after": 1, "drain_after": 2}, "stop_after and drain_after"),
        ({"version": 99}, "99"),
    ],
    ids=["unknown", "duration", "conflict", "newer"],
)
def test_unreadable_options_are_refused(
    world: World, capsys: pytest.CaptureFixture[str], options: dict[str, Any], message: str
) -> None:
    given = {"job": job_file(world), "root": str(world.root), "job_id": "job", **options}
    assert main(["--options", json.dumps(given)]) == ExitCode.REFUSED
    line = json.loads(capsys.readouterr().out.removeprefix("CKPT "))
    assert line["kind"] == "refused"
    assert message in line["message"]
    assert world.everything_under_root() == []


def test_a_terminally_failed_job_runs_again_only_with_resume_failed(world: World) -> None:
    expected = world.put_ids("history", 1, 3)
    journal = Journal(open_root(world.storage), world.job_id)
    journal.claim("before", Worker(), time.time())
    journal.write(StatusChanged(JobStatus.FAILED, time.time(), "the disk is full"))
    before = world.everything_under_root()
    code, line = run(world, job_file(world))
    assert (code, line["kind"]) == (ExitCode.REFUSED, "refused")
    assert "the disk is full" in line["message"]
    assert world.everything_under_root() == before
    code, line = run(world, job_file(world), resume_failed=True)
    assert (code, line["kind"]) == (ExitCode.FINISHED, "finished")
    assert world.released_ids() == sorted(expected)


def test_a_damaged_journal_stops_the_job(world: World) -> None:
    world.put_ids("history", 1, 3)
    journal = Journal(open_root(world.storage), world.job_id)
    journal.claim("before", Worker(), time.time())
    entry = Path(world.root, world.job_id, "journal", "00000000.json")
    entry.write_text(entry.read_text()[:40])
    before = world.everything_under_root()
    code, line = run(world, job_file(world))
    assert (code, line["kind"]) == (ExitCode.TERMINAL, "failed")
    assert world.everything_under_root() == before


def test_output_of_a_job_of_that_name_under_another_root_is_refused(world: World) -> None:
    """The first checkpoints of the new job would count as released, and their rows would be left out."""
    expected = world.put_ids("history", 2, 3)
    assert run(world, job_file(world))[0] == ExitCode.FINISHED
    elsewhere = world.base / "elsewhere"
    code, line = run(world, job_file(world), root=str(elsewhere))
    assert (code, line["kind"]) == (ExitCode.REFUSED, "refused")
    assert "'job' holds output of a job of that name up to checkpoint 1" in line["message"]
    assert not elsewhere.exists()
    assert world.released_ids() == sorted(expected)
    reference = job_file(world)
    file = world.base / "file_job.py"
    file.write_text(file.read_text().replace('/out")', '/out", mode="append")'))
    assert run(world, reference, root=str(elsewhere), job_id="another")[0] == ExitCode.FINISHED


def test_a_source_that_deletes_its_files_is_refused(world: World) -> None:
    """A job that restores a checkpoint could not read the files again."""
    world.put_ids("history", 1, 3)
    reference = job_file(world)
    path = world.base / "file_job.py"
    path.write_text(path.read_text().replace(".parquet(", ".option('cleanSource', 'delete').parquet("))
    code, line = run(world, reference)
    assert (code, line["kind"]) == (ExitCode.REFUSED, "refused")
    assert "cleanSource=delete" in line["message"]
    assert world.everything_under_root() == []


LIVE = """
from airflow_provider_ckpt import FileSink, Job

job = Job("live")

@job.source({options})
def live(read):
    return read.schema("id long, at timestamp").parquet("{path}")

job.sink("out", live, FileSink("{base}/out"))
"""


def live_job(world: World, options: str = "", path: str = "") -> str:
    file = world.base / "live_job.py"
    file.write_text(LIVE.format(base=world.base, options=options, path=path or world.base / "history"))
    return f"{file}:job"


@pytest.mark.parametrize(
    ("column", "delay"), [("at", "1 houur"), ("at", "-1 hour"), ("att", "1 hour"), ("id", "1 hour")]
)
def test_a_watermark_invalid_for_spark_is_refused_by_name(world: World, column: str, delay: object) -> None:
    """Without the refusal Spark fails with its own traceback, and the run is retried."""
    world.put_ids("history", 1, 3)
    code, line = run(world, live_job(world, f"watermark={(column, delay)!r}"))
    assert (code, line["kind"]) == (ExitCode.REFUSED, "refused")
    assert f"source 'live' ({world.base}/live_job.py:6) cannot have the watermark ('{column}', " in line["message"]
    assert line.get("traceback") is None
    assert world.everything_under_root() == []


def test_a_stream_of_a_single_file_is_refused_by_name(world: World) -> None:
    """Spark notices it only after the query has started, and the run would be retried."""
    world.put_ids("history", 1, 3)
    file = next((world.base / "history").glob("*.parquet"))
    code, line = run(world, live_job(world, path=str(file)))
    assert (code, line["kind"]) == (ExitCode.REFUSED, "refused")
    assert f"reads {file}, which is a file: Spark streams folders" in line["message"]
    assert world.everything_under_root() == []


ENDLESS = """
from airflow_provider_ckpt import FileSink, Job

job = Job("endless")

@job.source(bounded=True{ends})
def history(read):
    return read.{read}

@job.source
def live(read):
    return read.schema("value long").parquet("{base}/live")

@job.transform(inputs=[history, live])
def rows(both):
    return both.select("value")

job.sink("out", rows, FileSink("{base}/out"))
"""
RATE = 'format("rate-micro-batch").option("rowsPerBatch", 5).load().select("value")'
FILES = 'schema("value long").parquet("{base}/history")'


@pytest.mark.parametrize(
    ("ends", "read", "message"),
    [
        ("", RATE, "whose end cannot be known before it is read"),
        (', ends="available_now"', FILES, "whose end is frozen when the job first starts: leave it out"),
        (', ends="some day"', FILES, "'some day'"),
    ],
)
def test_r11_a_bounded_source_needs_a_frozen_end_or_ends(world: World, ends: str, read: str, message: str) -> None:
    world.put("history", "1", [{"value": 1}])
    world.put("live", "1", [{"value": 2}])
    path = world.base / "endless_job.py"
    path.write_text(ENDLESS.format(ends=ends, read=read.format(base=world.base), base=world.base))
    code, line = run(world, f"{path}:job")
    assert (code, message in line["message"]) == (ExitCode.REFUSED, True), line
    assert world.everything_under_root() == []


def test_r11_an_available_now_source_ends_at_the_data_of_its_start(world: World) -> None:
    world.put("live", "1", [{"value": 2}])
    path = world.base / "endless_job.py"
    path.write_text(ENDLESS.format(ends=', ends="available_now"', read=RATE, base=world.base))
    code, line = run(world, f"{path}:job", stop_after=5)
    assert (code, line["kind"]) == (ExitCode.FINISHED, "stopped"), line
