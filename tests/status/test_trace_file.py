"""The file with whole stack traces, and the short lines that a person reads instead."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.connections.environment import handed
from airflow_provider_ckpt.status.status_line import LineKind, StatusLine
from airflow_provider_ckpt.status.trace_file import TraceFile, keeping_traces, short_records, trace_file
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.redaction import hiding_given

TRACE = 'Traceback (most recent call last):\n  File "/job.py", line 9, in price\n    1 / 0\nZeroDivisionError: x\n'

JAVA = "java.io.IOException: no\n\tat org.apache.spark.X.y(X.scala:1)\n"
OURS = 'Traceback (most recent call last):\n  File "/lib/python3.11/x.py", line 1, in y\n    z()\nKeyError: 1\n\n'


@pytest.fixture
def file(tmp_path: Path) -> TraceFile:
    return TraceFile(str(tmp_path / "ckpt-1.log"))


@contextmanager
def handlers_of_root(*handlers: logging.Handler) -> Iterator[logging.Logger]:
    """Replace the handlers of the root logger, where pytest has its own."""
    root = logging.getLogger()
    before = root.handlers[:]
    root.handlers[:] = handlers
    try:
        yield root
    finally:
        root.handlers[:] = before


def test_one_line_is_kept_and_makes_no_trace_file(file: TraceFile) -> None:
    assert file.shortened("all is well\n") == "all is well"
    assert not file.exists


def test_a_longer_text_is_cut_to_a_line_that_names_the_trace_file(file: TraceFile) -> None:
    assert file.shortened(f"priced failed\n{TRACE}") == f"priced failed [more in {file.path}]"
    assert Path(file.path).read_text() == f"priced failed\n{TRACE}"
    assert Path(file.path).stat().st_mode & 0o777 == 0o600


def test_texts_are_appended_to_the_trace_file(file: TraceFile) -> None:
    file.shortened("a\nb")
    file.shortened("c\nd")
    assert Path(file.path).read_text() == "a\nb\nc\nd\n"


def test_secrets_reach_neither_the_line_nor_the_trace_file(file: TraceFile) -> None:
    redacting = replace(file, secrets=("s3cr3t",))
    assert redacting.shortened("s3cr3t a\ns3cr3t b") == f"*** a [more in {file.path}]"
    assert Path(file.path).read_text() == "*** a\n*** b\n"


def test_text_is_kept_if_the_trace_file_cannot_be_written(tmp_path: Path) -> None:
    file = TraceFile(str(tmp_path / "missing" / "ckpt-1.log"))
    assert file.shortened("a\nb") == "a\nb"


def test_a_process_has_one_trace_file() -> None:
    assert trace_file().path == trace_file().path


def test_the_trace_file_hides_secrets_of_connections_and_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", "postgres://me:p%40ss%2Fw0rd@db/shop")
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", "{")
    with hiding_given(Location("s3://lake", {"secret": "k3y-of-the-root"}).secrets()):
        assert trace_file().redact("p@ss/w0rd, p%40ss%2Fw0rd and k3y-of-the-root") == "***, *** and ***"
    with handed({"AIRFLOW_CONN_LATER": '{"conn_type": "kafka", "password": "l4ter"}'}):
        assert trace_file().redact("l4ter") == "***"
    assert trace_file().redact("l4ter") == "l4ter"
    assert "w0rd" not in repr(trace_file())


def test_trace_files_of_tests_are_below_the_folder_of_pytest(tmp_path_factory: pytest.TempPathFactory) -> None:
    program = "from airflow_provider_ckpt.status.trace_file import trace_file; print(trace_file().path)"
    path_in_a_process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    for path in (trace_file().path, path_in_a_process):
        assert Path(path).is_relative_to(tmp_path_factory.getbasetemp())


def test_a_warning_with_a_stack_trace_is_logged_in_one_line(
    file: TraceFile, capsys: pytest.CaptureFixture[str]
) -> None:
    with handlers_of_root() as root:
        with short_records(file):
            try:
                raise ValueError("no price")
            except ValueError:
                logging.getLogger("airflow_provider_ckpt.x").warning("it failed", exc_info=True)
            logging.getLogger("airflow_provider_ckpt.x").info("not shown")
        assert root.handlers == []
    assert capsys.readouterr().err == f"it failed [more in {file.path}]\n"
    assert "ValueError: no price" in Path(file.path).read_text()


def test_logging_configured_by_the_user_is_kept(file: TraceFile, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = logging.NullHandler()
    with handlers_of_root(theirs) as root, short_records(file):
        assert root.handlers == [theirs]
        logging.getLogger("airflow_provider_ckpt.x").error("a\nb")
    assert capsys.readouterr().err == ""
    assert not file.exists


def test_the_last_line_of_a_failed_run_names_the_trace_file(file: TraceFile) -> None:
    lines: list[StatusLine] = []
    emit = keeping_traces(lines.append, file)
    emit(StatusLine(LineKind.RUNNING, "running"))
    emit(StatusLine(LineKind.FAILED, "no trace so far"))
    emit(StatusLine(LineKind.SUBTASK_FAILED, "priced/0 failed", {"traceback": JAVA}))
    emit(StatusLine(LineKind.FAILED, "job orders RESTARTING"))
    assert [line.traces for line in lines] == [None, None, None, file.path]
    assert Path(file.path).read_text() == f"priced/0 failed\n{JAVA}"


def test_a_traceback_that_is_shown_completely_makes_no_trace_file(file: TraceFile) -> None:
    lines: list[StatusLine] = []
    emit = keeping_traces(lines.append, file)
    emit(StatusLine(LineKind.REFUSED, "loading it failed", {"traceback": TRACE}))
    assert not file.exists
    emit(StatusLine(LineKind.REFUSED, "loading it failed", {"traceback": OURS + TRACE}))
    assert Path(file.path).read_text() == f"loading it failed\n{OURS}{TRACE}"
    assert [line.traces for line in lines] == [None, file.path]
