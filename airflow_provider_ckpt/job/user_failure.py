"""What a user's function failed with, while a run is planned or a query is made: whether another try may help."""

from __future__ import annotations

import re

from airflow_provider_ckpt.errors import CkptError

_OF_THE_CODE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    SystemExit,
    TypeError,
    ValueError,
)
_OF_SPARK = frozenset(
    {
        "AnalysisException",
        "ArithmeticException",
        "ArrayIndexOutOfBoundsException",
        "DateTimeException",
        "IllegalArgumentException",
        "NumberFormatException",
        "ParseException",
        "SparkNoSuchElementException",
        "SparkUpgradeException",
        "UnsupportedOperationException",
    }
)
"""By name: this layer knows no Spark."""
_MISSING_IN_JVM = re.compile(
    r"\[DATA_SOURCE_NOT_FOUND\]|java\.lang\.(ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError)"
    r"|java\.sql\.SQLException: No suitable driver|does not exist in the JVM"
)
"""What the bridge to the JVM says of code or a library that is not there."""
PATH_NOT_FOUND = "PATH_NOT_FOUND"
"""Spark's condition for a missing folder. A later try may find the folder."""


def may_pass(error: BaseException) -> bool:
    """False for what speaks of the code, or of the columns and options that it names: the next try would fail the same
    way. True for a service, a database or a disk that was not there, and for whatever is not known here: to give up a
    job for good that would run a minute later is worse than to try it in vain."""
    if isinstance(error, CkptError):
        return error.retryable
    if isinstance(error, OSError):  # before the rest: what an HTTP library fails with is sometimes both
        return True
    if any(_is_of_spark(one) for one in type(error).__mro__):
        return spark_condition(error) == PATH_NOT_FOUND
    if type(error).__module__.startswith("py4j."):
        return _MISSING_IN_JVM.search(str(error)) is None
    return not isinstance(error, _OF_THE_CODE)


def spark_condition(error: BaseException | None) -> str | None:
    """Return the name of Spark's error condition; None if the error has none."""
    condition = getattr(error, "getCondition", None)
    found = condition() if callable(condition) else None
    return found if isinstance(found, str) else None


def _is_of_spark(kind: type) -> bool:
    return kind.__name__ in _OF_SPARK and kind.__module__.startswith("pyspark.errors")
