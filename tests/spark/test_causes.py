"""The status of a failed run begins with the user's own exception, however often Spark has wrapped it."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import LongType

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.app.query_failure import find_cause
from airflow_provider_ckpt.spark.task.errors import QueryFailedError, UnfitInputError
from airflow_provider_ckpt.spark.task.streaming.running_query import query_failed
from tests.spark.harness import World
from tests.spark.jobs import IDS, bounded

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


class NamelessError(Exception):
    """The exception that PySpark raises for a failed query whose cause has no message."""

    def __init__(self, stack: str | None) -> None:
        super().__init__("[STREAM_FAILED] Query [id = 5e1, runId = 77a] terminated with exception:  SQLSTATE: XXKST")
        self._stackTrace = stack


STACK = """org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] terminated with exception:
\tat org.apache.spark.sql.execution.streaming.runtime.StreamExecution.runStream(StreamExecution.scala:387)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readFully(DataInputStream.java:210)
"""


def test_a_cause_without_a_message_comes_from_the_jvm_stack() -> None:
    assert find_cause(NamelessError(STACK)).message == "java.io.EOFException"
    for stack in (None, "", "nothing of the kind"):
        assert find_cause(NamelessError(stack)).message.startswith("NamelessError:")


def test_the_innermost_python_exception_is_the_cause() -> None:
    cause = find_cause(RuntimeError(WORKER))
    assert cause.message == "KeyError: 'blue\n suede'"
    assert cause.traceback is not None
    assert cause.traceback.splitlines()[0] == "Traceback (most recent call last):"
    assert "orders.py" in cause.traceback
    assert "py4j" not in cause.traceback
    assert "SQLSTATE" not in cause.traceback


def test_the_innermost_jvm_exception_is_the_cause_without_a_python_one() -> None:
    assert find_cause(RuntimeError(PY4J)).message == "java.io.IOException: No space left on device"
    without = PY4J.partition("Caused by")[0]
    assert find_cause(RuntimeError(without)).message.startswith("org.apache.spark.SparkException: [TASK_WRITE_FAILED]")


MISMATCH = """An error occurred while calling o91.save.
: org.apache.spark.SparkException: [FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while \
reading file file:///lake/in.v2/a%20b.parquet. Data type mismatches when reading Parquet column [amount]. Expected \
Spark type bigint, actual Parquet type BINARY. SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.parquetColumnDataTypeMismatchError
Caused by: org.apache.spark.sql.execution.datasources.SchemaColumnConvertNotSupportedException: column: [amount]
"""


def test_a_column_of_another_type_ends_the_job_and_its_file_is_named() -> None:
    raised = RuntimeError(MISMATCH)
    failed = query_failed("daily", raised)
    assert isinstance(failed, UnfitInputError)
    assert "column amount is" in str(failed)
    assert not failed.retryable
    assert failed.data == {
        "vertex": "daily",
        "file": "file:///lake/in.v2/a%20b.parquet",
        "column": "amount",
        "expected": "bigint",
        "actual": "BINARY",
    }
    assert failed.__cause__ is raised


def test_an_error_that_may_pass_is_retried() -> None:
    for text in (
        PY4J,
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///lake/a. SQLSTATE: KD001",
    ):
        failed = query_failed("daily", RuntimeError(text))
        assert isinstance(failed, QueryFailedError)
        assert failed.retryable


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_file_of_another_type_is_named_and_the_mended_file_is_read(world: World, mode: str) -> None:
    expected = world.put_ids("history", 1, 2)
    world.put("history", "later", [{"id": "7", "k": 1}])
    run = world.run(bounded(world), mode=mode)
    assert run.status == "FAILED"
    assert "history/later.parquet: column id is BINARY in the file" in str(run.cause)
    world.put("history", "later", [{"id": 7, "k": 1}])
    run = world.run(bounded(world), mode=mode, resume_failed=True)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected | {7}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Disk is full SQLSTATE: XXKST\n=== St",
         "RuntimeError: Disk is full SQLSTATE: XXKST"),
        ("", "RuntimeError"),
        ("Traceback (most recent call last):\n  cut off", "RuntimeError: Traceback (most recent call last):"),
    ],
)  # fmt: skip
def test_an_unwrapped_error_keeps_its_first_line(text: str, message: str) -> None:
    assert find_cause(RuntimeError(text)).message == message


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_the_cause_of_a_failed_run_begins_with_the_users_exception(world: World, mode: str) -> None:
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


S3A = """An error occurred while calling o88.save.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)
Caused by: java.nio.file.AccessDeniedException: lake/out/part-0.parquet: PutObject on lake/out/part-0.parquet: software.amazon.awssdk.services.s3.model.S3Exception: Access Denied (Service: S3, Status Code: 403, Request ID: 7):AccessDenied
\tat org.apache.hadoop.fs.s3a.S3AUtils.translateException(S3AUtils.java:1)
Caused by: software.amazon.awssdk.services.s3.model.S3Exception: Access Denied (Service: S3, Status Code: 403, Request ID: 7)
"""  # noqa: E501


class StreamFailedError(Exception):
    _stackTrace = S3A.partition("\n: ")[2]


@pytest.mark.parametrize(
    "error",
    [
        Exception(S3A),
        StreamFailedError(
            "[STREAM_FAILED] Query [id = 1] terminated with exception: Access Denied (Service: S3, Status Code: 403) "
        ),
    ],
    ids=["py4j", "stream"],
)
def test_d23_an_s3_refusal_names_the_verb_and_the_object_as_s3a_does(error: Exception) -> None:
    message = find_cause(error).message
    assert "PutObject on lake/out/part-0.parquet" in message
    assert "Access Denied (Service: S3, Status Code: 403" in message
