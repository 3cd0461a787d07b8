"""One day's orders, prepared once for all readers. The result outlives the job, and there is no sink."""

from __future__ import annotations

from pyspark.sql import DataFrame

from airflow_provider_ckpt import Job

job = Job("prepared_orders")
LAKE = job.param("lake")
DAY = job.param("day")
ORDERS = "id LONG, shop STRING, amount DOUBLE"


@job.source(bounded=True)
def orders(read) -> DataFrame:
    return read.schema(ORDERS).json(f"{LAKE}/raw/day={DAY}")


@job.transform(inputs=[orders], persist=True)
def prepared(orders: DataFrame) -> DataFrame:
    return orders.where("amount > 0").dropDuplicates(["id"])
