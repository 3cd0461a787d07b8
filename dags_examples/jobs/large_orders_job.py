"""The large orders among those that another job has prepared."""

from __future__ import annotations

from pyspark.sql import DataFrame

from airflow_provider_ckpt import FileSink, Job, read_persisted

job = Job("large_orders")
LAKE = job.param("lake")
DAY = job.param("day")
PREPARED = job.param("prepared")  # the id of the other job


@job.source(bounded=True)
def orders(read) -> DataFrame:
    return read_persisted(read, job.root, PREPARED, "prepared")


@job.transform(inputs=[orders])
def large(orders: DataFrame) -> DataFrame:
    return orders.where("amount >= 100")


job.sink("table", large, FileSink(f"{LAKE}/large/day={DAY}", format="json", mode="overwrite"))
