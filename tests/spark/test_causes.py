"""A failed run says the user's own exception first, however often Spark has wrapped it."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import LongType

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.task.causes import find_cause
from tests.spark.harness import World
from tests.spark.jobs import IDS

WORKER = """[STREAM_FAILED] Query [id = 5e1, runId = 77a] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. Reason: An \
exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/lib/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
pyspark.errors.exceptions.captured.PythonException:
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/dags/orders.py", line 15, in price
    return PRICES[code]
           ~~~~~~^^^^^^
KeyError: 'blue
 suede'
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:665)
Caused by: java.lang.RuntimeException: not this one
"""
PY4J = """An error occurred while calling o162.save.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows. SQLSTATE: 58030
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""


def test_the_innermost_exception_of_python_is_the_cause() -> None:
    found = find_cause(RuntimeError(WORKER))
    assert found.message == "KeyError: 'blue\n suede'"
    assert found.traceback is not None
    assert found.traceback.splitlines()[0] == "Traceback (most recent call last):"
    assert "orders.py" in found.traceback
    assert "py4j" not in found.traceback
    assert "SQLSTATE" not in found.traceback


def test_else_the_innermost_of_the_jvm() -> None:
    assert find_cause(RuntimeError(PY4J)).message == "java.io.IOException: No space left on device"
    without = PY4J.partition("Caused by")[0]
    assert find_cause(RuntimeError(without)).message.startswith("org.apache.spark.SparkException: [TASK_WRITE_FAILED]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Disk is full SQLSTATE: XXKST\n=== St",
         "RuntimeError: Disk is full SQLSTATE: XXKST"),
        ("", "RuntimeError: "),
        ("Traceback (most recent call last):\n  cut off", "RuntimeError: Traceback (most recent call last):"),
    ],
)  # fmt: skip
def test_what_is_wrapped_in_nothing_keeps_its_first_line(text: str, message: str) -> None:
    assert find_cause(RuntimeError(text)).message == message


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_failed_run_begins_with_the_users_exception_and_shows_its_traceback(world: World, mode: str) -> None:
    world.put_ids("history", 1, 2)
    job = Job("failing")

    @job.source(bounded=True)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    def price(number: int) -> int:
        raise ValueError(f"no price for {number}")

    @job.transform(inputs=[history])
    def priced(rows: DataFrame) -> DataFrame:
        return rows.coalesce(1).withColumn("price", F.udf(price, LongType())("id"))

    job.sink("out", priced, FileSink(world.path("out")))
    run = world.run(job, mode=mode)
    assert run.status == "RESTARTING"
    assert (run.cause or "").startswith("priced/0: the query of vertex 'priced' failed: ValueError: no price for 0;")
    assert len(run.cause or "") < 150
    (line,) = run.of("subtask_failed")
    assert line["message"] == "priced/0 failed with ValueError: no price for 0"
    assert line["traceback"].startswith("Traceback")
    assert 'raise ValueError(f"no price for {number}")' in line["traceback"]
