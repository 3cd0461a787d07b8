"""A Python worker that lacks a module or a fit Python ends the job, because every retry would fail."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.spark.task.errors import ExecutorPythonError, QueryFailedError
from airflow_provider_ckpt.spark.task.streaming.running_query import query_failed

RAISED = """[STREAM_FAILED] Query [id = 5e1, runId = 77a] terminated with exception: Job aborted due to stage failure: \
Task 0 in stage 2.0 failed 4 times, most recent failure: Lost task 0.3 in stage 2.0 (TID 5) (127.0.0.1 executor 0): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/lib/pyspark/worker_util.py", line 100, in read_command
    command = serializer._read_with_length(file)
{raised}
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:665)
"""
PICKLED = """pyspark.serializers.SerializationError: Caused by Traceback (most recent call last):
  File "/lib/pyspark/serializers.py", line 191, in loads
    return cloudpickle.loads(obj, encoding=encoding)
ModuleNotFoundError: No module named 'helpers'
"""
OTHER = """During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/dags/orders.py", line 15, in price
ValueError: no such price"""
STARTING = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times: java.io.IOException: Cannot run \
program "/opt/gone/python": error=2, No such file or directory
\tat org.apache.spark.api.python.PythonWorkerFactory.startDaemon(PythonWorkerFactory.scala:322)
"""


@pytest.mark.parametrize(
    ("raised", "module"),
    [
        ("ModuleNotFoundError: No module named 'helpers'", "helpers"),
        ("ModuleNotFoundError: No module named 'shapes.round'; 'shapes' is not a package", "shapes.round"),
        ("ImportError: cannot import name 'price' from 'helpers' (/opt/old/helpers.py)", "helpers"),
        ("AttributeError: Can't get attribute 'price' on <module 'helpers' from '/opt/old/helpers.py'>", "helpers"),
        (PICKLED, "helpers"),
    ],
)
def test_a_missing_module_is_named_with_a_remedy(raised: str, module: str) -> None:
    failed = query_failed("orders", RuntimeError(RAISED.format(raised=raised)))
    assert isinstance(failed, ExecutorPythonError)
    assert failed.data == {"vertex": "orders", "module": module}
    assert "pyFiles" in str(failed)
    assert not failed.retryable


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            RAISED.format(
                raised="pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
                "worker has different version: 3.9 than that in driver: 3.11, PySpark cannot run with other versions."
            ),
            "it is Python 3.9, and the driver's is 3.11",
        ),
        (
            RAISED.format(
                raised="pyspark.errors.exceptions.base.PySparkImportError: [PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 "
                "must be installed; however, it was not found."
            ),
            "PyArrow >= 18.0.0 must be installed; however, it was not found",
        ),
        (STARTING, "/opt/gone/python does not start (error=2, No such file or directory)"),
    ],
)
def test_an_unfit_python_is_named_with_a_remedy(text: str, problem: str) -> None:
    failed = query_failed("orders", RuntimeError(text))
    assert isinstance(failed, ExecutorPythonError)
    assert failed.data["problem"] == problem
    assert "spark.pyspark.python" in str(failed)


@pytest.mark.parametrize(
    "text",
    [
        RAISED.format(raised="ValueError: No module named 'helpers'"),
        RAISED.format(raised=f"ModuleNotFoundError: No module named 'helpers'\n\n{OTHER}"),
        "Traceback (most recent call last):\n  File \"/dags/a.py\", line 1\nModuleNotFoundError: No module named 'a'",
        'java.io.IOException: Cannot run program "chmod": error=11, Resource temporarily unavailable',
    ],
)
def test_an_error_that_may_pass_is_retried(text: str) -> None:
    assert type(query_failed("orders", RuntimeError(text))) is QueryFailedError
