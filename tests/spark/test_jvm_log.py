"""The layout of Spark's log: each event is one line on the console, and longer events are whole in a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.app.jvm_log import _console_appender, _file_appender
from airflow_provider_ckpt.status.trace_file import TraceFile, trace_file

pytestmark = pytest.mark.slow

AT = r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d"
PYTHON = "Lost task 1.0 in stage 0.0: Traceback (most recent call last):\n  File x\nZeroDivisionError: division by zero"


class Log:
    """The two appenders, without a logger in front of them: tests switch Spark's loggers off."""

    def __init__(self, spark: SparkSession, file: TraceFile) -> None:
        jvm: Any = spark._jvm
        self._jvm, self._log4j = jvm, jvm.org.apache.logging.log4j
        configuration = self._log4j.LogManager.getContext(False).getConfiguration()
        self.file = file
        self.console = _console_appender(self._log4j, configuration, file)
        self.traces = _file_appender(self._log4j, configuration, file)
        self.traces.start()

    def event(self, message: str, error: str | None = None) -> Any:
        builder = self._log4j.core.impl.Log4jLogEvent.newBuilder()
        builder = builder.setMessage(self._log4j.message.SimpleMessage(message))
        builder = builder.setLoggerName("org.apache.spark.util.Utils").setLevel(self._log4j.Level.WARN)
        return builder.setThrown(None if error is None else self._jvm.java.io.IOException(error)).build()

    def shown(self, event: Any) -> str:
        """Return the line on the console, without its time."""
        return str(self.console.getLayout().toSerializable(event))[len("26/11/29 19:42:59 ") :]

    def kept(self, event: Any) -> str:
        """Return the file's content after the event."""
        self.traces.append(event)
        return Path(self.file.path).read_text() if self.file.exists else ""


@pytest.fixture
def log(spark: SparkSession, tmp_path: Path) -> Log:
    return Log(spark, TraceFile(str(tmp_path / "ckpt-1.log")))


def test_a_one_line_event_is_shown_and_not_kept(log: Log) -> None:
    event = log.event("Your hostname resolves to a loopback address")
    assert log.shown(event) == "WARN Utils: Your hostname resolves to a loopback address\n"
    assert log.kept(event) == ""
    assert not log.file.exists


def test_an_event_with_an_exception_is_shown_in_one_line_and_kept_whole(log: Log) -> None:
    event = log.event("Interrupted while joining on", "no space\nleft")
    more = f" [more in {log.file.path}]\n"
    assert log.shown(event) == f"WARN Utils: Interrupted while joining on: java.io.IOException: no space{more}"
    kept = log.kept(event)
    assert "WARN org.apache.spark.util.Utils: Interrupted while joining on\njava.io.IOException: no space\nleft" in kept
    assert "\n\tat " in kept
    assert Path(log.file.path).stat().st_mode & 0o777 == 0o600


def test_a_message_of_several_lines_is_shown_by_its_first_line(log: Log) -> None:
    event = log.event(PYTHON)
    first = PYTHON.partition("\n")[0]
    assert log.shown(event) == f"WARN Utils: {first} [more in {log.file.path}]\n"
    assert log.kept(event).endswith(f"{PYTHON}\n")


@pytest.mark.parametrize("secret", ["s3cr{e}t\\Q|(.*", "pä$$w0rd😀", "***|"], ids=["braces", "unicode", "stars"])
def test_a_secret_is_neither_shown_nor_kept(spark: SparkSession, tmp_path: Path, secret: str) -> None:
    log = Log(spark, TraceFile(str(tmp_path / "ckpt-1.log"), (secret, f"{secret}-longer", "abc")))
    event = log.event(f"abc tried {secret}-longer at host", f"and {secret}\nagain {secret}")
    shown, kept = log.shown(event), log.kept(event)
    assert shown.startswith("WARN Utils: abc tried *** at host: java.io.IOException: and *** [more in ")
    assert kept.count("***") == 3
    assert "-longer" not in kept


@pytest.mark.parametrize(
    ("message", "verdict"),
    [
        ("Aborting task", "DENY"),
        ("Exception in task 1.0 in stage 0.0 (TID 1)", "DENY"),
        ("Job: job_1_0000, Task: task_1_m_1, Task attempt attempt_1_m_1_1 aborted.", "DENY"),
        ("Lost task 1.0 in stage 0.0 (TID 1)", "NEUTRAL"),
        ("Task 1 in stage 0.0 failed 4 times; aborting job", "NEUTRAL"),
        ("Query q [id = 1] terminated with error", "NEUTRAL"),
    ],
)
def test_the_console_shows_one_event_of_a_failed_task(log: Log, message: str, verdict: str) -> None:
    assert str(log.console.getFilter().filter(log.event(message))) == verdict


def test_a_session_uses_both_appenders(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    root = jvm.org.apache.logging.log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
    appenders = root.getAppenders()
    assert set(appenders) == {"ckpt-console", "ckpt-traces"}
    assert appenders["ckpt-traces"].getFileName() == trace_file().path


STATEFUL = """
import sys, time
from airflow_provider_ckpt.spark.main import stop_session
from airflow_provider_ckpt.spark.app.session import build_session

settings = {"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
spark = build_session("x", {**settings, "spark.sql.streaming.stateStore.maintenanceInterval": "1s"})
folder = sys.argv[1]
spark.range(3).write.parquet(f"{folder}/in")
counts = spark.readStream.name("a").schema("id LONG").parquet(f"{folder}/in").groupBy("id").count()
stream = counts.writeStream.option("checkpointLocation", f"{folder}/c").outputMode("complete").format("memory")
stream.queryName("m").trigger(availableNow=True).start().awaitTermination()
stores = getattr(getattr(spark._jvm.org.apache.spark.sql.execution.streaming.state, "StateStore$"), "MODULE$")
assert stores.isMaintenanceRunning()
stop_session()
until = time.monotonic() + 60
while stores.isMaintenanceRunning() and time.monotonic() < until:
    pass
print("stopped", not stores.isMaintenanceRunning())
"""


def test_the_maintenance_of_state_stores_ends_with_spark(tmp_path: Path) -> None:
    """The maintenance thread would log a stack trace: SparkEnv not active, cannot do maintenance on StateStores."""
    command = [sys.executable, "-c", STATEFUL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "stopped True\n", done.stderr
    assert "maintenance" not in done.stderr
