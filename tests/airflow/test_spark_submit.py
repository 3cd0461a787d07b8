from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.airflow.support import FakeSparkSubmit, status
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

# There are two processes. The parent is an Airflow task, killed as the kernel does when memory is short.
_TASK = """
import sys
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook
base = SparkSubmitHook(conn_id="spark_default", spark_binary=sys.argv[1])
hook = CheckpointedSparkSubmitHook(base, name="x", application_args=[], on_status=lambda line: None)
hook.submit("main.py")
"""


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_r8_spark_submit_ends_when_its_airflow_task_is_killed(spark_submit: FakeSparkSubmit) -> None:
    spark_submit.play(status("started", epoch=1), wait=True)
    task = subprocess.Popen(
        [sys.executable, "-c", _TASK, spark_submit.path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until((spark_submit.folder / "waiting").exists, "spark-submit")
        (call,) = spark_submit.calls
        assert not gone(call.pid)
        os.kill(task.pid, signal.SIGKILL)
        task.wait(30)
        wait_until(lambda: gone(call.pid), "the end of spark-submit")
    finally:
        (spark_submit.folder / "go").write_text("")
        task.kill()
        task.wait(30)
