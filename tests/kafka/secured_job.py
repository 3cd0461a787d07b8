"""Job of test_secured: a topic in and a topic out, over TLS with a password."""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql import DataFrame

from airflow_provider_ckpt import Job, KafkaSink, kafka_options

BASE, LIVE, OUT, HISTORY = (os.environ[f"KAFKA_JOB_{name}"] for name in ("BASE", "LIVE", "OUT", "HISTORY"))

job = Job("secured")


def topic(read: Any, name: str) -> DataFrame:
    options = {**kafka_options("shop_kafka"), "subscribe": name, "startingOffsets": "earliest"}
    return read.format("kafka").options(**options).load().select("key", "value")  # type: ignore[no-any-return]


@job.source(bounded=True)
def history(read: Any) -> DataFrame:
    return topic(read, HISTORY)


@job.source
def live(read: Any) -> DataFrame:
    return topic(read, LIVE)


@job.transform(inputs=[history, live])
def rows(both: DataFrame) -> DataFrame:
    both.explain(extended=True)
    return both


job.sink("topic", rows, KafkaSink(conn_id="shop_kafka", topic=OUT, staging=f"{BASE}/staging", transaction_timeout=60))
