"""Job of test_workers: two topics in, two topics and a table out, in separate processes."""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt import Job, KafkaSink, PostgresSink, kafka_options

BASE, SERVERS, CERTIFICATE, USER, HISTORY, LIVE, BY_CONNECTION, BY_VARIABLE = (
    os.environ[f"KAFKA_JOB_{name}"]
    for name in ("BASE", "SERVERS", "CERTIFICATE", "USER", "HISTORY", "LIVE", "BY_CONNECTION", "BY_VARIABLE")
)
SETTINGS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": USER,
    "ssl.ca.location": CERTIFICATE,
}

job = Job("parted")


def topic(read: Any, name: str, at_once: int) -> DataFrame:
    options = {**kafka_options("shop_kafka"), "subscribe": name, "startingOffsets": "earliest"}
    frame = read.format("kafka").options(**options).option("maxOffsetsPerTrigger", at_once).load()
    row = F.from_json(F.col("value").cast("string"), "id LONG, k LONG")
    return frame.select(row["id"].alias("id"), row["k"].alias("k"))  # type: ignore[no-any-return]


@job.source(bounded=True, chain=False)
def history(read: Any) -> DataFrame:
    rows = topic(read, HISTORY, 4)
    return rows.where("length(coalesce(java_method('java.lang.Thread', 'sleep', 50L), '')) < 9")  # slows each row down


@job.source
def live(read: Any) -> DataFrame:
    return topic(read, LIVE, 20)


@job.transform(inputs=[history, live])
def rows(both: DataFrame) -> DataFrame:
    return both


@job.transform(inputs=[rows])
def records(all_rows: DataFrame) -> DataFrame:
    return all_rows.select(F.col("id").cast("string").alias("key"), F.to_json(F.struct("id", "k")).alias("value"))


job.sink(
    "by_connection",
    records,
    KafkaSink(conn_id="shop_kafka", topic=BY_CONNECTION, staging=f"{BASE}/staging", transaction_timeout=60),
)
job.sink(
    "by_variable",
    records,
    KafkaSink(
        SERVERS,
        BY_VARIABLE,
        f"{BASE}/staging",
        config=SETTINGS,
        config_env={"sasl.password": "SHOP_KAFKA_PASSWORD"},
        transaction_timeout=60,
    ),
)
if "SHOP_URL" in os.environ:
    job.sink("table", rows, PostgresSink("public.parted", url=os.environ["SHOP_URL"], create=True))
