"""Orders: history from files and a live topic, into a table of PostgreSQL, a Delta table and files.

Needs the extras ``postgres`` and ``delta``, and Spark's Kafka connector (``packages`` of the operator).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt import DeltaSink, FileSink, Job, PostgresSink

job = Job("orders_everywhere")
LAKE = job.param("lake")
SERVERS = job.param("servers")  # broker-1:9092,broker-2:9092
TOPIC = job.param("topic", default="orders")
ORDER = "id LONG, shop STRING, amount DOUBLE"


@job.source(bounded=True)
def history(read) -> DataFrame:
    """Return the files that were there when the job first started. Their list is frozen, and each is read once."""
    return read.schema(ORDER).parquet(f"{LAKE}/raw/orders")


@job.source
def live(read) -> DataFrame:
    """Read from the earliest offset: with "latest" a driver that dies before its first micro-batch would skip rows."""
    options = {"kafka.bootstrap.servers": SERVERS, "subscribe": TOPIC, "startingOffsets": "earliest"}
    value = F.from_json(F.col("value").cast("string"), ORDER)
    return read.format("kafka").options(**options).load().select(value.alias("order")).select("order.*")


@job.transform(inputs=[history, live])
def orders(rows: DataFrame) -> DataFrame:
    return rows.where("id IS NOT NULL AND amount IS NOT NULL")


@job.transform(inputs=[orders])
def large(rows: DataFrame) -> DataFrame:
    return rows.where("amount >= 100")


# Each sink shows a complete checkpoint as soon as that sink can. A sink that is down delays no other sink.
job.sink("files", orders, FileSink(f"{LAKE}/orders"))
job.sink("delta", orders, DeltaSink(f"{LAKE}/orders_delta"))
# The latest row of an order counts, also if the topic has it twice.
job.sink("table", large, PostgresSink("shop.large_orders", mode="upsert", key=["id"], conn_id="shop_db"))
