"""SIGTERM under spark-submit, in real processes.

Either process may get the signal: a savepoint is taken and released.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.spark.harness import World
from tests.support.processes import ROOT, Process, command_name
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

JOB = """
from airflow_provider_ckpt import FileSink, Job

job = Job("live")


@job.source(max_files_per_trigger=1)
def live(read):
    return read.schema("id long, k long").parquet({live!r})


job.sink("out", live, FileSink({out!r}))
"""


@pytest.mark.parametrize("process_kind", ["driver", "JVM"])
def test_d20_a_driver_under_spark_submit_takes_a_savepoint_at_sigterm(tmp_path: Path, process_kind: str) -> None:
    world = World(tmp_path)
    expected = world.put_ids("live", 2, 2)
    file = tmp_path / "live_job.py"
    file.write_text(JOB.format(live=world.path("live"), out=world.path("out")))
    options = {"job": f"{file}:job", "root": str(world.root), "job_id": world.job_id, "checkpoint_interval": 1}
    command = [
        str(Path(sys.executable).with_name("spark-submit")),
        *("--master", "local[1]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.bindAddress=127.0.0.1"),
        str(ROOT / "airflow_provider_ckpt" / "spark" / "main.py"),
        *("--options", json.dumps(options)),
    ]
    environ = {"PYSPARK_PYTHON": sys.executable, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with Process(command, tmp_path / "driver.log", env=environ) as process:
        wait_until(lambda: world.released_count() >= len(expected), process.tail, seconds=180)
        drivers = [pid for pid in process.session() if (command_name(pid) or "").startswith("python")]
        process.signal(signal.SIGTERM, drivers[:1] if process_kind == "driver" else process.jvms())
        assert process.wait() == 0, process.tail()
        wait_until(lambda: not process.session(), "the end of all child processes")
        assert "SIGTERM: taking a savepoint" in process.text()
    state = world.state()
    assert state.status == "STOPPED"
    assert state.checkpoints[state.last_completed].kind == "savepoint"
    assert state.last_released == state.last_completed
    assert [outcome.result for outcome in state.outcomes.values()] == ["completed"]
    assert world.released_ids() == sorted(expected)
