"""Creation of a class archive: a training driver does once what every driver does at its start."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from pyspark import SparkContext

from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.jvm.archive_making import LONGEST, make
from airflow_provider_ckpt.jvm.class_archive import ClassArchive
from airflow_provider_ckpt.jvm.errors import ArchiveNotMadeError
from airflow_provider_ckpt.jvm.jvm_environ import SUBMIT, quiet_options
from airflow_provider_ckpt.spark.app.session import build_session
from airflow_provider_ckpt.spark.app.warm_up import warm_up
from airflow_provider_ckpt.spark.main import run_job, stop_session
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import StatusLine
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
    """Make the archive as :func:`make` does. Call it in a process of its own, before Spark has started there."""
    return make(archive, functools.partial(_record, archive))


def _record(archive: ClassArchive, made: Path) -> None:
    """Run the training job in a JVM that writes the classes it has loaded to ``made`` when it ends."""
    given = os.environ.get(SUBMIT, "")
    # The archive holds no compiled code. So the quick compiler is enough for this short-lived JVM.
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
        raise ArchiveNotMadeError(problem=f"the training job did not finish: {told[-1].message if told else code}")


def _end_jvm() -> None:
    """End the JVM, because it writes the archive at its end. It ends when its standard input is closed."""
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
