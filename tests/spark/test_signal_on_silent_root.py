"""SIGTERM for a driver whose root accepts connections and never answers."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from airflow_provider_ckpt.job.options.storage_options import storage_options_environ
from tests.support.processes import Process
from tests.support.silent_server import silent_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

DRIVER = """
import os

from airflow_provider_ckpt.job.options.run_options import RunOptions, read_storage_options
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.spark.app.signals import LeaveOnSignal
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage

root = Location("s3://lake/ckpt", read_storage_options(os.environ))
leave_on_signal = LeaveOnSignal(RunOptions("orders.py:job", root.uri, "orders"), root, lambda line: None, ask_seconds=1)
leave_on_signal(StatusLine("started", "as of a driver", {"epoch": 1}))
print("ready", flush=True)
while True:
    try:
        open_storage(root).read("journal")
    except Exception as error:
        print(error, flush=True)
"""


def test_d19_sigterm_does_not_wait_for_a_silent_root(tmp_path: Path) -> None:
    pytest.importorskip("s3fs")
    with silent_server() as server:
        options = {"key": "k", "secret": "s3cr3t", "endpoint_url": server.uri}
        command = [sys.executable, "-c", DRIVER]
        with Process(command, tmp_path / "driver.log", env=storage_options_environ(options)) as process:
            wait_until(lambda: server.connections > 0, process.tail)
            begun = time.monotonic()
            process.signal(signal.SIGTERM, [process.pid])
            assert process.wait(20) == 128 + signal.SIGTERM, process.tail()
            assert time.monotonic() - begun < 15
            output = process.text()
    assert "SIGTERM: leaving without a savepoint: the root s3://lake/ckpt has not answered for 1 s" in output
    assert "s3cr3t" not in output
