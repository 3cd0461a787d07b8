"""The training job for a class archive. It does typical work of drivers, over rows of its own, and ends by itself."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.sinks.file.file_sink import FileSink

job = Job("class_archive")
folder = job.param("folder")


@job.source(uid="history", bounded=True)
def history(read: Any) -> Any:
    return read.schema("n BIGINT, name STRING, at TIMESTAMP").parquet(f"{folder}/history")


@job.transform(inputs=[history], uid="counts", output_mode="update")
def counts(rows: Any) -> Any:
    rows = rows.where("n >= 0").withColumn("name", functions.upper("name"))
    return rows.groupBy("name").agg(functions.count("*").alias("n"), functions.max("at").alias("newest"))


job.sink("counts_out", counts, FileSink(f"{folder}/counts"))
