"""Check whether Spark's JVM has ended. Then every call of Spark fails with an error that seems the caller's fault."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark import SparkContext


def is_gone() -> bool:
    """Return True if Spark was started in this process and its JVM has ended."""
    context = SparkContext._active_spark_context
    if context is None:
        return False
    try:
        context._jvm.java.lang.System.nanoTime()  # type: ignore[union-attr]
    except (Py4JError, OSError):
        return True
    return False
