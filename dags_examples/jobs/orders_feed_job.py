"""Orders as they arrive, for as long as a driver runs the job."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job

job = Job("orders_feed")
LAKE = job.param("lake")
ORDERS = "id LONG, shop STRING, amount DOUBLE"


@job.source
def live(read) -> DataFrame:
    return read.schema(ORDERS).json(f"{LAKE}/raw/live")


@job.transform(inputs=[live])
def large(orders: DataFrame) -> DataFrame:
    return orders.where(F.col("amount") > 100)


job.sink("table", large, FileSink(f"{LAKE}/large_orders", format="json"))
