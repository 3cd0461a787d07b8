"""Scaling of executors while a job runs (R21), on a real standalone cluster."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.job.reconfiguration import Reconfiguration
from tests.chaos.data import Feeder
from tests.chaos.ending import finish
from tests.chaos.world import SMALL, World
from tests.cluster.standalone import Standalone
from tests.cluster.submitting import COUNTS, submit_command
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_executors_of_a_running_job_can_be_scaled(
    cluster: Standalone, executor_python: Path, driver_python: Path, tmp_path: Path
) -> None:
    conf = {name: value for name, value in SMALL.items() if name != "spark.master"}
    with World(tmp_path, COUNTS, conf=conf) as world:
        submit = submit_command(world, cluster, executor_python, driver_python)
        client = JobClient(str(world.root), world.job_id)
        with Feeder(world.data):
            first = world.start(submit)
            first.wait_for("released", count=2)
            there_are(cluster, 2)
            for number in (1, 2, 1):
                assert asked(client, number).startswith("completed: "), first.tail()
                there_are(cluster, number)
                first.wait_for("released", count=len(first.lines("released")) + 3)
            first.signal(signal.SIGKILL)
            first.wait()
            second = world.start(submit)
            second.wait_for("released", count=2)
            there_are(cluster, 1)
        finish(world, second)
        assert world.state().epoch == 2, "fewer executors are Spark's to mend"


def asked(client: JobClient, number: int) -> str:
    change = Reconfiguration().assign_resources("counts", executors=number)
    return str(client.answer(client.reconfigure(change), 180).outcome)


def there_are(cluster: Standalone, number: int) -> None:
    wait_until(lambda: len(cluster.executors()) == number, lambda: f"{cluster.executors()}", seconds=90)
