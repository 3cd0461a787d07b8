"""A driver's output in a task's log: levels, and how much of a failure is logged."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_ckpt.hooks.driver_log import LineLevels, log_status
from airflow_provider_ckpt.status.status_line import LineKind, StatusLine
from tests.airflow.support import FakeSparkSubmit, status

LINES = [
    ("WARNING: Using incubator modules: jdk.incubator.vector", "INFO"),
    ("26/11/29 19:42:59 INFO SparkContext: Running", "INFO"),
    ("26/11/29 19:42:59 WARN TaskSetManager: Lost task 1.0 [more in /tmp/ckpt-1.log]", "WARNING"),
    ("printed by the job", "INFO"),
    ("26/11/29 19:42:59 ERROR Utils: Aborting task", "ERROR"),
    ("org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION]", "ERROR"),
    ("Traceback (most recent call last):", "ERROR"),
    ('  File "/job.py", line 9, in price', "ERROR"),
    ("ZeroDivisionError: division by zero", "ERROR"),
    ("\tat java.base/java.lang.Thread.run(Thread.java:840)", "ERROR"),
    ("Caused by: java.io.IOException: no", "ERROR"),
    ("26/11/29 19:42:59 FATAL X: out of memory", "CRITICAL"),
    ("26/11/29 19:42:59 DEBUG X: detail", "DEBUG"),
    ("26/11/29 19:42:59 REMARKS are no level", "INFO"),
]
TRACE = 'Traceback (most recent call last):\n  File "/job.py", line 9, in price\n    1 / 0\nZeroDivisionError: x'


def test_each_driver_line_is_logged_with_its_spark_level() -> None:
    levels = LineLevels()
    assert [logging.getLevelName(levels.of(line)) for line, _ in LINES] == [level for _, level in LINES]


@pytest.mark.parametrize(
    ("line", "logged"),
    [
        (StatusLine(LineKind.RUNNING, "job orders is RUNNING"), [("INFO", "job orders is RUNNING")]),
        (StatusLine(LineKind.WARNING, "late"), [("WARNING", "late")]),
        (StatusLine(LineKind.CHECKPOINT, "checkpoint 1", {"quiet": True}), []),
        (
            StatusLine(LineKind.SUBTASK_FAILED, "priced/0 failed with ZeroDivisionError: x", {"traceback": TRACE}),
            [
                ("ERROR", "priced/0 failed with ZeroDivisionError: x"),
                ("ERROR", '  File "/job.py", line 9, in price\n    1 / 0'),
            ],
        ),
        (
            StatusLine(LineKind.FAILED, "job orders RESTARTING", {"traces": "/tmp/ckpt-1.log"}),
            [
                ("ERROR", "job orders RESTARTING"),
                ("INFO", "whole stack traces are in /tmp/ckpt-1.log, on the host of the driver"),
            ],
        ),
    ],
)
def test_a_status_line_is_logged_with_its_level_and_the_users_frames(
    line: StatusLine, logged: list[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("a-task")
    with caplog.at_level(logging.DEBUG, "a-task"):
        log_status(log, line)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == logged


def test_a_tasks_log_has_the_driver_lines_with_their_levels(
    spark_submit: FakeSparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook

    seen: list[StatusLine] = []
    spark_submit.play(*(line for line, _ in LINES), status("running", "RUNNING"), exit=1)
    base = SparkSubmitHook(conn_id="spark_default", spark_binary=spark_submit.path)
    hook = CheckpointedSparkSubmitHook(base, name="x", application_args=[], on_status=seen.append)
    log = Recorder()
    monkeypatch.setattr(hook, "_log", log)
    with pytest.raises(Exception, match="REMARKS are no level"):  # the end of the output is in the error
        hook.submit("main.py")
    expected = [(level, line) for line, level in LINES]
    assert [line for line in log.lines if line in expected] == expected
    assert ("INFO", "RUNNING") in log.lines
    assert [line.kind for line in seen] == ["running"]


class Recorder(logging.Logger):
    """A logger that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__("recorder")
        self.lines: list[tuple[str, str]] = []

    def handle(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelname, record.getMessage()))
