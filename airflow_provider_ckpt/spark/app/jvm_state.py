"""Check that Spark's JVM still runs. Without the JVM every call fails, and looks like a mistake of its caller."""

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
