"""The job that a class archive is made with: it does what drivers do, over rows of its own, and ends by itself."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.sinks.file_sink import FileSink

job = Job("class_archive")
folder = job.param("folder")


@job.source(uid="history", bounded=True)
def history(read: Any) -> Any:
    return read.schema("n BIGINT, name STRING, at TIMESTAMP").parquet(f"{folder}/history")


@job.transform(inputs=[history], uid="plain")
def plain(rows: Any) -> Any:
    return rows.where("n >= 0").withColumn("upper", functions.upper("name"))


@job.transform(inputs=[history], uid="counts")
def counts(rows: Any) -> Any:
    return rows.groupBy("name").agg(functions.count("*").alias("n"), functions.max("at").alias("newest"))


job.sink("rows", plain, FileSink(f"{folder}/rows"))
job.sink("counts_out", counts, FileSink(f"{folder}/counts"))
