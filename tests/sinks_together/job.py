"""Job of this folder's tests: history from files and a live topic, to a sink of each kind."""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt import DeltaSink, FileSink, IcebergSink, Job, KafkaSink, PostgresSink, SqlSink
from tests.sinks_together.steps import pause_at_step

pause_at_step()

job = Job("together")
BASE, SERVERS, LIVE = job.param("base"), job.param("servers"), job.param("live")
ROW = "id LONG, k LONG"


@job.source(bounded=True, max_files_per_trigger=1)
def history(read: Any) -> DataFrame:
    return read.schema(ROW).parquet(f"{BASE}/history")  # type: ignore[no-any-return]


@job.source
def live(read: Any) -> DataFrame:
    options = {"kafka.bootstrap.servers": SERVERS, "subscribe": LIVE, "startingOffsets": "earliest"}
    row = F.from_json(F.col("value").cast("string"), ROW)
    frame = read.format("kafka").options(**options).option("maxOffsetsPerTrigger", 20).load()
    return frame.select(row["id"].alias("id"), row["k"].alias("k"))  # type: ignore[no-any-return]


@job.transform(inputs=[history, live])
def rows(both: DataFrame) -> DataFrame:
    # differs in each try: a batch that is computed twice must be shown once, as it was checkpointed
    return both.withColumn("computed", F.rand())


@job.transform(inputs=[rows])
def records(all_rows: DataFrame) -> DataFrame:
    return all_rows.select(F.col("id").cast("string").alias("key"), F.to_json(F.struct("id", "k")).alias("value"))


SHOP = os.environ.get("AIRFLOW_CONN_SHOP_DB", "").replace("postgresql://", "postgresql+psycopg://")
CATALOG = {"type": "sql", "uri": SHOP, "warehouse": f"file://{BASE}/warehouse"}
job.sink("files", rows, FileSink(f"{BASE}/files"))
job.sink("table", rows, PostgresSink("together.rows", conn_id="shop_db", create=True), transaction="shop")
job.sink("second", rows, PostgresSink("together.second", conn_id="shop_db", create=True), transaction="shop")
job.sink("mariadb", rows, SqlSink("rows", conn_id="shop_sql", create=True))
job.sink("delta", rows, DeltaSink(f"{BASE}/delta"))
job.sink("iceberg", rows, IcebergSink("lake.rows", catalog=CATALOG))
job.sink("topic", records, KafkaSink(SERVERS, job.param("topic"), f"{BASE}/staging", transaction_timeout=60))
