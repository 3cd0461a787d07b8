"""One day's revenue by shop: a batch that can be repeated."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job

job = Job("daily_revenue")
LAKE = job.param("lake")
DAY = job.param("day")
ORDERS = "id LONG, shop STRING, amount DOUBLE"


@job.source(bounded=True)
def orders(read) -> DataFrame:
    return read.schema(ORDERS).json(f"{LAKE}/raw/day={DAY}")


@job.transform(inputs=[orders])
def revenue(orders: DataFrame) -> DataFrame:
    return orders.groupBy("shop").agg(F.sum("amount").alias("revenue"))


job.sink("table", revenue, FileSink(f"{LAKE}/revenue/day={DAY}", format="json", mode="overwrite"))
