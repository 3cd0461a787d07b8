"""Errors that a user's function may raise, and whether a retry may help."""

from __future__ import annotations

import json
import urllib.error

import py4j.protocol
import pytest
from pyspark.errors import (
    AnalysisException,
    DateTimeException,
    NumberFormatException,
    PySparkTypeError,
    SparkNoSuchElementException,
    SparkRuntimeException,
    UnsupportedOperationException,
)

from airflow_provider_ckpt.job.user_failure import may_pass


class DriverError(Exception):
    """Error of a database's client that this package does not know."""


class BothError(OSError, ValueError):
    """Error of an HTTP library that received no JSON."""


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError("no"),
        TimeoutError("no"),
        urllib.error.URLError("no"),
        RuntimeError("no"),
        DriverError("no"),
        BothError("no"),
        py4j.protocol.Py4JError("no"),
        SparkRuntimeException("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_may_pass_is_retried(error: Exception) -> None:
    assert may_pass(error)


@pytest.mark.parametrize(
    "error",
    [
        TypeError("no"),
        KeyError("no"),
        NameError("no"),
        ModuleNotFoundError("no"),
        ZeroDivisionError("no"),
        SystemExit(0),
        json.JSONDecodeError("no", "", 0),
        AnalysisException("no"),
        PySparkTypeError("no"),
        py4j.protocol.Py4JError("java.lang.Integer.nosuch does not exist in the JVM"),
        py4j.protocol.Py4JError("calling o1.load.\n: java.lang.ClassNotFoundException: org.apache.Driver\n\tat java"),
        py4j.protocol.Py4JError("calling o1.load.\n: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: nosuch."),
        py4j.protocol.Py4JError("calling o1.load.\n: java.sql.SQLException: No suitable driver\n\tat java"),
        UnsupportedOperationException("no"),
        SparkNoSuchElementException("no"),
        NumberFormatException("no"),
        DateTimeException("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_code_is_not_retried(error: BaseException) -> None:
    assert not may_pass(error)
