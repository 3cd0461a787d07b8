"""Whether Spark's JVM is there: without it every call fails somewhere, and looks like a mistake of whoever called."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark import SparkContext


def is_gone() -> bool:
    """Whether Spark was started here, and its JVM is no more."""
    context = SparkContext._active_spark_context
    if context is None:
        return False
    try:
        context._jvm.java.lang.System.nanoTime()  # type: ignore[union-attr]
    except (Py4JError, OSError):
        return True
    return False
