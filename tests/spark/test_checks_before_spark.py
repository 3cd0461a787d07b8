"""Refusals that need no Spark come before Spark starts, whose start takes up to minutes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.spark.main import run_job
from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.storage.location import Location

JOB = """
from airflow_provider_ckpt import FileSink, Job, SqlSink

job = Job("orders")
folder = job.param("folder")

@job.source(bounded=True)
def history(read):
    return read.schema("id LONG").parquet(folder + "/history")

job.sink("out", history, {sink})
{after}
"""


class SparkStartedError(Exception):
    pass


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def start(builder: Any) -> None:
        raise SparkStartedError

    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr("airflow_provider_ckpt.spark.app.session._started", start)
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def run(
    folder: Path, sink: str = 'FileSink(folder + "/out")', root: str | None = None, after: str = "", **options: Any
) -> tuple[ExitCode, StatusLine]:
    (folder / "orders.py").write_text(JOB.format(sink=sink, after=after))
    location = Location(root or str(folder / "root"))
    given = {"params": {"folder": str(folder)}, **options}
    lines: list[StatusLine] = []
    asked = RunOptions(f"{folder}/orders.py:job", location.uri, "orders", **given)
    code = run_job(RunRequest(asked, location, lines.append))
    return code, lines[-1]


def test_a_valid_job_starts_spark(tmp_path: Path) -> None:
    code, line = run(tmp_path)
    assert (code, line.message) == (ExitCode.FAILED, "SparkStartedError")


def test_a_status_line_hides_secret_settings_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(builder: Any) -> None:
        raise SparkStartedError("the key Pl4nted/s3cr3t was refused")

    monkeypatch.setattr("airflow_provider_ckpt.spark.app.session._started", start)
    code, line = run(tmp_path, conf={"spark.hadoop.fs.s3a.secret.key": "Pl4nted/s3cr3t"})
    assert (code, line.message) == (ExitCode.FAILED, "SparkStartedError: the key *** was refused")
    assert "Pl4nted" not in str(line)


def test_an_unknown_parameter_of_the_job_is_refused(tmp_path: Path) -> None:
    code, line = run(tmp_path, params={"folder": "x", "fodler": "y"})
    assert code is ExitCode.REFUSED
    assert "fodler" in line.message


def test_a_deadline_in_the_past_is_refused(tmp_path: Path) -> None:
    live = '\n@job.source()\ndef live(read):\n    pass\n\njob.sink("l", live, FileSink(folder + "/live"))'
    at = datetime(2020, 1, 1, tzinfo=timezone.utc)
    code, line = run(tmp_path, after=live, stop_at=at)
    assert code is ExitCode.REFUSED
    assert "stop_at" in line.message


def test_a_root_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, line = run(tmp_path, root=f"{tmp_path}/file/root")
    assert code is ExitCode.TERMINAL
    assert f"{tmp_path}/file" in line.message
    assert "Spark" not in line.message


def test_a_root_without_write_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(tmp_path))  # root may write everywhere
    code, line = run(tmp_path)
    assert code is ExitCode.TERMINAL
    assert line.message.startswith(f"the storage refused to write to file://{tmp_path}/root: ")


def test_a_sink_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    code, line = run(tmp_path)
    assert code is ExitCode.TERMINAL
    assert f"{tmp_path}/out" in line.message
    assert not (tmp_path / "root").exists()


def test_a_sink_with_the_releases_of_another_root_is_refused(tmp_path: Path) -> None:
    manifests = tmp_path / "_ckpt-out" / "orders" / "out" / "manifests"
    manifests.mkdir(parents=True)
    code, line = run(tmp_path, 'FileSink(folder + "/out", format="json")')
    assert code is ExitCode.FAILED
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / "part-0.parquet").write_bytes(b"PAR1")
    code, line = run(tmp_path, 'FileSink(folder + "/out", format="json")')
    assert code is ExitCode.REFUSED
    assert "part-0.parquet" in line.message


def test_a_database_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    code, line = run(tmp_path, 'SqlSink("orders", url=f"sqlite:///{folder}/missing/x.db")')
    assert code is ExitCode.REFUSED
    folder = tmp_path / "missing"
    assert f"there is no file {folder}/x.db" in line.message
    command = line.message.partition("make an empty file: `")[2].partition("`")[0]
    assert command == f"mkdir -p {folder} && touch {folder}/x.db"
    subprocess.run(command, shell=True, check=True)
    code, line = run(tmp_path, 'SqlSink("orders", url=f"sqlite:///{folder}/missing/x.db", create=True)')
    assert (code, line.message) == (ExitCode.FAILED, "SparkStartedError")


def test_batch_mode_with_a_live_source_is_refused(tmp_path: Path) -> None:
    live = '\n@job.source()\ndef live(read):\n    pass\n\njob.sink("l", live, FileSink(folder + "/live"))'
    code, line = run(tmp_path, after=live, mode="batch")
    assert code is ExitCode.REFUSED
    assert line.message.startswith("mode 'batch' needs sources with an end, and job 'orders' has others: live. Use")


def test_a_job_with_an_openable_database_starts_spark(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "x.db").close()
    code, line = run(tmp_path, 'SqlSink("orders", url=f"sqlite:///{folder}/x.db")')
    assert (code, line.message) == (ExitCode.FAILED, "SparkStartedError")
