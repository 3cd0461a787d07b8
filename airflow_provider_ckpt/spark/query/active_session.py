"""Spark's active session, which is one of each thread."""

from __future__ import annotations

from pyspark.sql import SparkSession


def activate(spark: SparkSession) -> None:
    """Make it the active session of the calling thread."""
    SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
