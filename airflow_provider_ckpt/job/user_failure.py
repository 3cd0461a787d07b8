"""The decision whether a retry may help after a user's function failed while a query was planned or created."""

from __future__ import annotations

import re

from airflow_provider_ckpt.errors import CkptError

_CODE_ERRORS = (
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
_SPARK_ERRORS = frozenset(
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
"""Names of Spark's errors about code, columns or options. This layer does not import Spark."""
_MISSING_IN_JVM = re.compile(
    r"\[DATA_SOURCE_NOT_FOUND\]|java\.lang\.(ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError)"
    r"|java\.sql\.SQLException: No suitable driver|does not exist in the JVM"
)
"""Errors of the bridge to the JVM about missing code or a missing library."""
PATH_NOT_FOUND = "PATH_NOT_FOUND"
"""Spark's condition for a missing folder. A later try may find the folder."""


def may_pass(error: BaseException) -> bool:
    """Return True if the failure may be temporary.

    A failure is permanent if the code is wrong, or if a column or option that it names is wrong. It may be temporary if
    a service, a database or a disk was not available. An unknown error may be temporary, too, because a needless retry
    costs less than an abandoned job.
    """
    if isinstance(error, CkptError):
        return error.retryable
    if isinstance(error, OSError):  # first, because errors of HTTP libraries are sometimes of both kinds
        return True
    if any(_is_spark_error(kind) for kind in type(error).__mro__):
        return spark_condition(error) == PATH_NOT_FOUND
    if type(error).__module__.startswith("py4j."):
        return _MISSING_IN_JVM.search(str(error)) is None
    return not isinstance(error, _CODE_ERRORS)


def spark_condition(error: BaseException | None) -> str | None:
    """Return the name of Spark's error condition, or None if the error has none."""
    condition = getattr(error, "getCondition", None)
    name = condition() if callable(condition) else None
    return name if isinstance(name, str) else None


def _is_spark_error(kind: type) -> bool:
    return kind.__name__ in _SPARK_ERRORS and kind.__module__.startswith("pyspark.errors")
