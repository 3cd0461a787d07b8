from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.airflow.support import FakeSparkSubmit, status

# Two processes: the parent is an Airflow task, killed as the kernel kills one that is out of memory.
_TASK = """
import sys
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook
base = SparkSubmitHook(conn_id="spark_default", spark_binary=sys.argv[1])
hook = CheckpointedSparkSubmitHook(base, name="x", application_args=[], on_status=lambda line: None)
hook.submit("main.py")
"""


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_r8_spark_submit_goes_when_its_airflow_task_is_killed(spark_submit: FakeSparkSubmit) -> None:
    spark_submit.play(status("started", epoch=1), wait=True)
    task = subprocess.Popen(
        [sys.executable, "-c", _TASK, spark_submit.path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(spark_submit.folder / "waiting")
        (call,) = spark_submit.calls
        assert not gone(call.pid)
        os.kill(task.pid, signal.SIGKILL)
        task.wait(30)
        deadline = time.monotonic() + 30
        while not gone(call.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert gone(call.pid)
    finally:
        (spark_submit.folder / "go").write_text("")
        task.kill()
        task.wait(30)
