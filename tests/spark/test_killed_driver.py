"""A driver that is killed and whose JVM does not end by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from airflow_provider_ckpt.storage.processes import process_started
from tests.support.processes import ROOT
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DRIVER = """
import os, time
from airflow_provider_ckpt.jvm import jvm_watch
from airflow_provider_ckpt.spark.app.session import build_session
jvm_watch.GRACE = 1
spark = build_session("killed", {"spark.master": "local[1]", "spark.ui.enabled": "false"})
print("jvm", spark._jvm.java.lang.ProcessHandle.current().pid(), os.getpid(), flush=True)
time.sleep(600)
"""
FORKING = """
import os, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
from airflow_provider_ckpt.jvm import jvm_watch
from airflow_provider_ckpt.spark.app.session import build_session
jvm_watch.GRACE = 0
if os.fork() == 0:
    build_session("child", {"spark.ui.enabled": "false"})
    print("watching", len(jvm_watch._watching), flush=True)
    os._exit(0)
os.wait()
build_session("parent", {"spark.ui.enabled": "false"})
print("watching", len(jvm_watch._watching), flush=True)
print("counted", spark.range(5).count(), flush=True)
"""


@pytest.mark.parametrize("submitted", [False, True], ids=["python", "spark-submit"])
def test_the_jvm_of_a_killed_driver_ends(tmp_path: Path, submitted: bool) -> None:
    """The test stops the JVM with SIGSTOP.

    A JVM also hangs when its exit and RocksDB wait for each other.
    """
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    submit = [os.path.join(_find_spark_home(), "bin", "spark-submit"), "--master", "local[1]"]
    command = [*(submit if submitted else [sys.executable]), str(script)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True) as started:
        assert started.stdout is not None
        _, jvm, driver = next(line for line in started.stdout if line.startswith("jvm")).split()
        os.kill(int(jvm), signal.SIGSTOP)
        os.kill(int(driver), signal.SIGKILL)
        wait_until(lambda: process_started(int(jvm)) is None, "the end of the JVM")


def test_a_forked_child_does_not_end_the_jvm_of_its_parent() -> None:
    """The child inherits the JVM's gateway from its parent and requests a session."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.run(
        [sys.executable, "-c", FORKING], env=environ, stdout=subprocess.PIPE, text=True, timeout=300
    )
    assert parent.stdout.splitlines() == ["watching 0", "watching 1", "counted 5"]
