"""The program whose JVM writes a class archive: it repeats the work of a driver's start.

:func:`launch.class_archive.make` runs this module, with a folder for its files. The JVM gets its options from the
environment, and writes the archive when it ends.
"""

from __future__ import annotations

import sys

from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.report.exit_code import ExitCode
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


def main(folder: str) -> ExitCode:
    """Run the training job in ``folder`` and print its status lines."""
    spark = build_session("class-archive", CONF)
    rows = spark.range(1000).selectExpr("id AS n", "concat('name ', id % 7) AS name", "now() AS at")
    rows.write.parquet(f"{folder}/history")
    warm_up(spark, stateful=True)
    root = f"{folder}/root"
    params = {"folder": folder}
    options = RunOptions(job=JOB, root=root, job_id="class_archive", mode="streaming", conf=CONF, params=params)
    code = run_job(options, Location(root), lambda line: print(line.message))
    stop_session()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
