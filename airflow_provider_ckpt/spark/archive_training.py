"""Makes a class archive, by a driver that does once what every driver does at its start."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from pyspark import SparkContext

from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.launch.archive_making import LONGEST, make
from airflow_provider_ckpt.launch.class_archive import ClassArchive
from airflow_provider_ckpt.launch.errors import ArchiveNotMadeError
from airflow_provider_ckpt.launch.jvm_environ import SUBMIT, quiet_options
from airflow_provider_ckpt.report.exit_code import ExitCode
from airflow_provider_ckpt.report.status_line import StatusLine
from airflow_provider_ckpt.spark.main import run_job, stop_session
from airflow_provider_ckpt.spark.session import build_session
from airflow_provider_ckpt.spark.warm_up import warm_up
from airflow_provider_ckpt.storage.location import Location

JOB = "airflow_provider_ckpt.spark.training_job:job"
CONF = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.port": "0",
    "spark.sql.shuffle.partitions": "1",
}


def train(archive: ClassArchive) -> Path | None:
    """As :func:`make`, for a process that has no Spark yet, and does nothing else."""
    return make(archive, functools.partial(_record, archive))


def _record(archive: ClassArchive, made: Path) -> None:
    """A JVM writes down at its end which classes it has loaded."""
    given = os.environ.get(SUBMIT, "")
    # what is compiled is not in it: of a JVM that lives for so short a time the quick compiler's is enough
    options = [*quiet_options(archive), "-XX:TieredStopAtLevel=1", f'"-XX:ArchiveClassesAtExit={made}"', given]
    os.environ[SUBMIT] = " ".join(options).strip()
    work = tempfile.mkdtemp(prefix="ckpt-class-archive-")
    try:
        _drive(Path(work))
    finally:
        _end_jvm()
        os.environ[SUBMIT] = given
        shutil.rmtree(work, ignore_errors=True)


def _drive(work: Path) -> None:
    spark = build_session("class-archive", CONF)
    rows = spark.range(1000).selectExpr("id AS n", "concat('name ', id % 7) AS name", "now() AS at")
    rows.write.parquet(f"{work}/history")
    warm_up(spark, stateful=True)
    told: list[StatusLine] = []
    root = f"{work}/root"
    options = RunOptions(
        job=JOB, root=root, job_id="class_archive", mode="streaming", conf=CONF, params={"folder": str(work)}
    )
    code = run_job(options, Location(root), told.append)
    if code is not ExitCode.FINISHED:
        raise ArchiveNotMadeError(
            problem=f"the job that it is made with ended so: {told[-1].message if told else code}"
        )


def _end_jvm() -> None:
    """The archive is written when the JVM ends, which it does once nobody can give it orders any more."""
    stop_session()
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    process.stdin.close()
    try:
        process.wait(LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
