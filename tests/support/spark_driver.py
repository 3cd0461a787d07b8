"""The one Spark driver of a test run. A process has one JVM, whose settings the first session decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.app.session import build_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return a session built as a job builds it, for tests that want Spark in their own process."""
    session = started(tmp_path_factory.mktemp("spark"), {})
    yield session
    session.stop()


def started(scratch: Path, more: Mapping[str, str]) -> SparkSession:
    session = build_session(
        "tests",
        {
            "spark.master": "local[2]",
            # thousands of queries run in it, and Spark keeps some memory for each
            "spark.driver.memory": "2g",
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            **more,
        },
        str(scratch),
    )
    session.sparkContext.setLogLevel("OFF")
    return session
