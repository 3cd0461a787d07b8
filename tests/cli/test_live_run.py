"""The terminal of ``ckpt run``: lines with times, progress, a summary, and Spark's log in a file of its own."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from airflow_provider_ckpt.cli.live_run import LiveRun, summary
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.status.job_overview import write_overview
from airflow_provider_ckpt.status.status_line import LineKind, StatusLine
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from tests.status.test_job_overview import NOON, overview_of_running_job

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

WRITES_TO_BOTH = """
import os, sys
from airflow_provider_ckpt.cli.live_run import spark_log
with spark_log() as path:
    os.write(2, b"as Spark\\n")
    print("as Python", file=sys.stderr)
print("afterwards", file=sys.stderr)
print(path)
"""


def test_what_spark_writes_goes_to_a_file_and_python_errors_to_the_terminal() -> None:
    done = subprocess.run([sys.executable, "-c", WRITES_TO_BOTH], capture_output=True, text=True, check=True)
    log = Path(done.stdout.strip())
    try:
        assert (log.read_text(), done.stderr) == ("as Spark\n", "as Python\nafterwards\n")
        assert log.stat().st_mode & 0o777 == 0o600
    finally:
        log.unlink()


def test_lines_have_a_time_and_the_end_has_a_summary(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    output = io.StringIO()
    live = LiveRun(Console(file=output, width=120, force_terminal=True, color_system=None), "/tmp/spark.log")
    live._began = NOON
    options = RunOptions(job="orders.py:job", root=str(tmp_path), job_id="orders")
    with live.shown():
        live.print_line(StatusLine(LineKind.STARTED, "job orders starts\x1b[2J"))
        live.print_line(StatusLine(LineKind.FAILED, "job orders FAILED: it is printed to standard error"))
        write_overview(storage, overview_of_running_job())
        live.close(options, Location(str(tmp_path)))
    lines = [line.rstrip() for line in ESCAPES.sub("", output.getvalue()).replace("\r", "\n").splitlines()]
    assert any(re.fullmatch(r"\d\d:\d\d:\d\d  job orders starts\\x1b\[2J", line) for line in lines), lines
    assert "  read       history 10 / 40 files (25 %); live 3 rows since the driver began" in lines
    assert "  released   lake 15 rows; shop 4 rows since the job began" in lines
    assert any(line.startswith("  error      shop has failed to release") for line in lines)
    assert not [line for line in lines if re.match(r"\d\d:\d\d:\d\d  job orders FAILED", line)]


def test_an_overview_of_an_earlier_run_is_not_shown(tmp_path: Path) -> None:
    write_overview(open_storage(tmp_path), overview_of_running_job())
    live = LiveRun(Console(file=io.StringIO()), "/tmp/spark.log")
    live.close(RunOptions(job="orders.py:job", root=str(tmp_path), job_id="orders"), Location(str(tmp_path)))
    assert live._overview is None
    assert list(summary(None, NOON)) == []


def test_the_summary_counts_failed_checkpoints() -> None:
    overview = replace(overview_of_running_job(), completed_count=44, aborted_count=1)
    assert "44 checkpoints since the job began, 1 failed" in "\n".join(summary(overview, NOON))


MAIN = "import sys; from airflow_provider_ckpt.cli import main; sys.exit(main())"
JOB = """
from airflow_provider_ckpt import FileSink, Job

job = Job("copying")

@job.source(bounded=True)
def history(read):
    return read.schema("id LONG").json({source!r})

job.sink("lake", history, FileSink({target!r}, format="json"))
"""


@pytest.mark.slow
def test_a_run_in_a_terminal_shows_its_progress_and_no_line_of_spark(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1}\n{"id": 2}\n')
    file = tmp_path / "copying.py"
    file.write_text(JOB.format(source=str(tmp_path / "in"), target=str(tmp_path / "out")))
    command = [sys.executable, "-c", MAIN, "run", f"{file}:job", "--root", str(tmp_path / "r")]
    code, text = in_terminal([*command, "--mode", "streaming"])
    shown = ESCAPES.sub("", text)
    assert code == 0, shown
    assert re.search(r"\d\d:\d\d:\d\d  job copying starts \(epoch 1\)", shown)
    assert "job copying FINISHED" in shown
    assert "released   lake 2 rows since the job began" in shown
    assert "WARN" not in shown
    log = re.search(r"Spark's own log: (\S+)", shown)
    assert log is not None
    assert "WARN" in Path(log[1]).read_text()
    Path(log[1]).unlink()


def in_terminal(command: list[str]) -> tuple[int, str]:
    """Run a command with a terminal as its output, and return its exit code and its output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(COLUMNS="140", LINES="50", TERM="xterm")
        os.execv(command[0], command)
    output = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux reports the end of the other side as an error
            break
        if not data:
            break
        output += data
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output.decode(errors="replace")
