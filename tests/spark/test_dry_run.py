"""`ckpt check`: it refuses what a run would refuse, and writes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.journal.events import StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.spark.dry_run import CheckedJob, CheckedQuery, check_job
from airflow_provider_ckpt.spark.preparation.loaded_run import LoadedRun, RunRequest
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.processes import process_started
from tests.spark.harness import World

pytestmark = pytest.mark.slow


def job_of(world: World, *, column: str = "twice", folder: str = "out") -> Job:
    """Build a job whose query doubles the ids of a folder."""
    job = Job("doubling")

    @job.source(bounded=True)
    def history(read):  # type: ignore[no-untyped-def]
        return read.schema("id long, k long").option("maxFilesPerTrigger", 1).parquet(world.path("history"))

    @job.source
    def live(read):  # type: ignore[no-untyped-def]
        return read.schema("id long, k long").parquet(world.path("live"))

    @job.transform(inputs=[history, live])
    def doubled(rows):  # type: ignore[no-untyped-def]
        return rows.selectExpr("id", f"id * 2 AS {column}")

    job.sink("lake", doubled, FileSink(str(world.base / folder)))
    return job


def check(world: World, job: Job) -> CheckedJob:
    options = world.options()
    job.validate()
    request = RunRequest(options, Location(options.root), lambda line: None)
    return check_job(LoadedRun(request, job, world.storage, Journal(world.storage, options.job_id)))


def everything(base: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in base.rglob("*") if path.is_file()}


def test_a_check_of_a_new_job_shows_it_and_writes_nothing(world: World) -> None:
    world.put_ids("history", 2, 3)
    world.path("live")
    before = everything(world.base)
    checked = check(world, job_of(world))
    assert checked == CheckedJob(
        "job",
        None,
        "begin the job",
        "streaming",
        (
            CheckedQuery(
                "doubled", ("history", "live", "doubled"), (), ("lake",), False, (("id", "bigint"), ("twice", "bigint"))
            ),
        ),
        {"lake": 0},
    )
    assert everything(world.base) == before
    assert not world.root.exists()
    assert not (world.base / "out").exists()


def test_a_check_compares_a_stopped_job_with_its_last_run(world: World) -> None:
    world.put_ids("history", 2, 3)
    world.path("live")
    world.stop_in_batch(job_of(world), "doubled")
    before = everything(world.base)
    checked = check(world, job_of(world))
    plan = f"resume the job after checkpoint {world.state().last_completed}"
    assert (checked.status, checked.would) == (JobStatus.STOPPED, plan)
    with pytest.raises(InvalidInputError, match="doubled"):
        check(world, job_of(world, column="thrice"))
    with pytest.raises(InvalidInputError, match="lake"):
        check(world, job_of(world, folder="elsewhere"))
    assert everything(world.base) == before


def test_a_check_of_a_running_job_names_its_driver(world: World) -> None:
    world.put_ids("history", 2, 3)
    world.path("live")
    world.stop_in_batch(job_of(world), "doubled")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        journal = Journal(world.storage, "job")
        journal.claim("other", replace(identify(), pid=process.pid, started=process_started(process.pid)), time.time())
        journal.write(StatusChanged(JobStatus.RUNNING, time.time()))
        checked = check(world, job_of(world))
        process.kill()
    assert checked.status is JobStatus.RUNNING
    assert f"has a driver: pid {process.pid} on host" in (checked.refused or "")
    journal.write(StatusChanged(JobStatus.RUNNING, time.time()))  # not fenced


def test_the_check_command_prints_the_plan_and_refuses_as_a_run_does(world: World) -> None:
    world.put_ids("history", 2, 3)
    path = world.base / "orders.py"
    path.write_text(
        "from airflow_provider_ckpt import FileSink, Job\n"
        "job = Job('orders')\n"
        "@job.source(bounded=True)\n"
        f"def history(read):\n    return read.schema('id long, k long').parquet('{world.base}/history')\n"
        f"job.sink('lake', history, FileSink('{world.base}/out'))\n"
    )
    command = [str(Path(sys.executable).parent / "ckpt"), "check", f"{path}:job", "--root", str(world.root)]
    command += ["--conf", "spark.master=local[1]", "--conf", "spark.ui.enabled=false"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "job orders: new under this root, batch mode\n"
        "query history (bounded): history -> lake\n"
        "  columns: id bigint, k bigint\n"
        "sink lake: it answers; no release with rows yet\n"
        "a run would begin the job; nothing was written\n"
    )
    assert not world.root.exists()
    (world.base / "out").mkdir()
    (world.base / "out" / "part-0.parquet").write_bytes(b"rows of somebody else")
    refused = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "ckpt: error:" in refused.stderr
    (world.base / "out" / "part-0.parquet").unlink()
    shown = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert (shown["format"], shown["version"], shown["sinks"]) == ("airflow-provider-ckpt/checked-job", 1, {"lake": 0})
