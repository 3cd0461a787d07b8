"""`ckpt run`, `plan` and `master` for a job that another driver runs."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.jobmaster.errors import JobRunsError
from airflow_provider_ckpt.jobmaster.recovery.takeover import RECENT, refuse_living_driver
from airflow_provider_ckpt.journal.events import CheckpointTriggered, DeploymentPrepared, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.processes import process_started
from airflow_provider_ckpt.storage.root import open_root

JOB = """
from airflow_provider_ckpt import FileSink, Job

job = Job("orders")


@job.source(bounded=True)
def history(read):
    return read.schema("id LONG").json("in")


job.sink("lake", history, FileSink("lake"))
"""
ROOT = "/lake/ckpt"
ELSEWHERE = Worker(host="vm-2", boot_id="b", pid=3153, started="1")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that stands for a driver. It ends with the test."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(open_root(open_storage(tmp_path / "root")), "orders")


def _driver_of(process: subprocess.Popen[bytes]) -> Worker:
    return replace(identify(), pid=process.pid, started=process_started(process.pid))


def _runs(journal: Journal, worker: Worker, *, seconds_ago: float = 2.0) -> None:
    """Have a driver run the job and trigger a checkpoint."""
    at = time.time() - seconds_ago
    journal.claim("first", worker, at)
    journal.write(StatusChanged(JobStatus.RUNNING, at))
    journal.write(CheckpointTriggered(1, at))


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_job_with_a_live_driver_is_refused_before_spark_starts(
    command: str,
    process: subprocess.Popen[bytes],
    journal: Journal,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    _runs(journal, _driver_of(process))
    (tmp_path / "orders.py").write_text(JOB)
    assert main([command, f"{tmp_path}/orders.py:job", "--root", str(tmp_path / "root"), "--job-id", "orders"]) == 2
    printed = capfd.readouterr().err
    assert f"job 'orders' is RUNNING, and has a driver: pid {process.pid} on host {identify().host}, last" in printed
    stop = f"`ckpt stop orders --root {tmp_path}/root`"
    assert f"Stop the job first ({stop}), or take it from that driver, which then ends (--take-over)\n" in printed
    assert "Spark" not in printed
    journal.write(CheckpointTriggered(2, time.time()))  # not fenced
    assert process.poll() is None


def test_a_second_jobmaster_is_refused_while_the_first_one_lives(
    process: subprocess.Popen[bytes], journal: Journal, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    journal.claim("planner", Worker(), time.time())
    journal.write(DeploymentPrepared(1, time.time()))
    journal.claim("master", _driver_of(process), time.time(), deployment=1)
    (tmp_path / "orders.py").write_text(JOB)
    assert main(["master", f"{tmp_path}/orders.py:job", "--root", str(tmp_path / "root"), "--job-id", "orders"]) == 2
    assert f"has a driver: pid {process.pid} on host" in capfd.readouterr().err


def test_a_dead_driver_does_not_refuse_the_next_run(process: subprocess.Popen[bytes], journal: Journal) -> None:
    _runs(journal, _driver_of(process))
    process.kill()
    process.wait()
    refuse_living_driver(journal.state, time.time(), ROOT)


@pytest.mark.parametrize(
    "status", [JobStatus.RESTARTING, JobStatus.STOPPED, JobStatus.FINISHED, JobStatus.FAILED], ids=str
)
def test_a_driver_that_has_ended_the_job_is_not_refused(
    status: JobStatus, process: subprocess.Popen[bytes], journal: Journal
) -> None:
    _runs(journal, _driver_of(process))
    journal.write(StatusChanged(status, time.time()))
    refuse_living_driver(journal.state, time.time(), ROOT)


def test_a_driver_on_another_host_counts_as_alive_while_it_writes(journal: Journal) -> None:
    _runs(journal, ELSEWHERE, seconds_ago=5)
    now = time.time()
    with pytest.raises(JobRunsError, match=r"pid 3153 on host vm-2, which cannot be seen from here, last .* 5 s") as e:
        refuse_living_driver(journal.state, now, ROOT)
    wait = re.search(r"If that driver is gone, run this again in (\d+) s: a driver on another host", str(e.value))
    assert wait is not None
    refuse_living_driver(journal.state, now + int(wait[1]), ROOT)
    refuse_living_driver(journal.state, now + RECENT, ROOT)


def test_the_planner_of_a_deployment_is_no_driver(journal: Journal) -> None:
    journal.claim("planner", ELSEWHERE, time.time())
    journal.write(CheckpointTriggered(1, time.time()))
    with pytest.raises(JobRunsError):
        refuse_living_driver(journal.state, time.time(), ROOT)
    journal.write(DeploymentPrepared(1, time.time()))
    refuse_living_driver(journal.state, time.time(), ROOT)


def test_a_driver_takes_over_from_itself(journal: Journal) -> None:
    """An upgrade claims the next epoch in the same process."""
    _runs(journal, identify())
    refuse_living_driver(journal.state, time.time(), ROOT)
