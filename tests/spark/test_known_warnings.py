"""Filter for Spark's warnings: it hides warnings that our use of Spark causes, and logs all others."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.app.known_warnings import silence

pytestmark = pytest.mark.slow

OURS = [
    "spark.sql.adaptive.enabled is not supported in streaming DataFrames/Datasets and will be disabled.",
    "Disabling AQE since AQE is not supported in stateful workloads.",
    "Conf 'spark.sql.streaming.internal.stateStore.partitions' was not found in the offset log. Using existing "
    "session conf value '2'.",
    "Failed to cancel job group 8de751f3-9822-417d-9d0a-20b9dbe467eb. Cannot find active jobs for it.",
    "The read limit MaxBytes: 134217728 for FileStreamSource[file:/landing/live] is ignored when Trigger.Once is used.",
]
OTHERS = ["Lost task 0.0 in stage 1.0", "Cannot find active jobs", "Query q [id = 1] terminated with error"]


def filter_result(spark: SparkSession, text: str) -> str:
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    message = log4j.message.SimpleMessage(text)
    event = log4j.core.impl.Log4jLogEvent.newBuilder().setMessage(message).build()
    return str(log4j.LogManager.getContext(False).getConfiguration().getFilter().filter(event))


@pytest.mark.parametrize("text", OURS)
def test_warnings_caused_by_our_use_of_spark_are_hidden(spark: SparkSession, text: str) -> None:
    silence(spark)
    assert filter_result(spark, text) == "DENY"


@pytest.mark.parametrize("text", OTHERS)
def test_every_other_warning_is_logged(spark: SparkSession, text: str) -> None:
    assert filter_result(spark, text) == "NEUTRAL"
