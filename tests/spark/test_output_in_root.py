"""Released output below the root: it is never deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.client.garbage_collection import collect_garbage
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.jobmaster.retention import garbage_search
from airflow_provider_ckpt.spark.main import run_job
from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest
from airflow_provider_ckpt.storage.layout import JOURNAL, PARTS
from airflow_provider_ckpt.storage.location import Location
from tests.spark.harness import World
from tests.spark.jobs import IDS

pytestmark = pytest.mark.slow


def job_of(world: World, out: Path) -> Job:
    job = Job("orders")

    @job.source(bounded=True)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    job.sink("out", history, FileSink(str(out), mode="append"))
    return job


def released(out: Path) -> list[str]:
    return sorted(
        path.name for path in out.rglob("*.parquet") if not any(part.startswith("_ckpt-") for part in path.parts)
    )


@pytest.mark.parametrize("where", ["job", "job/out"])
def test_released_files_in_the_folder_of_a_deleted_job_stay(
    world: World, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Example: the root is ``s3://lake``, and the job "orders" writes its rows to ``s3://lake/orders``."""
    world.put_ids("history", 2, 3)
    out = world.root / where
    assert world.run(job_of(world, out)).status == "FINISHED"
    before = released(out)
    assert before
    JobClient(world.root, world.job_id).delete()
    assert released(out) == before
    monkeypatch.setattr(garbage_search, "is_alive", lambda worker: False)  # the driver was this process
    [collected] = collect_garbage(world.root, delete=True).jobs
    assert (collected.status, collected.garbage, released(out)) == ("DELETED", (), before)
    world.job_id = "another"
    assert world.run(job_of(world, out)).status == "FINISHED"
    both = released(out)
    assert len(both) > len(before)
    collect_garbage(world.root, "job", delete=True)
    assert released(out) == both


@pytest.mark.parametrize("part", [*PARTS, JOURNAL])
def test_a_sink_among_the_files_of_a_job_is_refused(world: World, part: str) -> None:
    job_file = world.base / "among.py"
    out = world.root / "other" / part / "history"
    job_file.write_text(
        "from pathlib import Path\n"
        "from tests.spark.harness import World\n"
        "from tests.spark.test_output_in_root import job_of\n"
        f"job = job_of(World(Path({str(world.base)!r})), Path({str(out)!r}))\n"
    )
    lines: list[dict[str, Any]] = []
    options = world.options(job=f"{job_file}:job", root=str(world.root))
    assert run_job(RunRequest(options, Location(options.root), lambda line: lines.append(line.to_json()))) == 2
    assert "lies among the files that job 'other' keeps" in lines[-1]["message"]
    assert not world.root.exists()
