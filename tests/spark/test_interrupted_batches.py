"""Py4J's log of batches that a stop interrupts."""

from __future__ import annotations

import pytest
from py4j import clientserver

from airflow_provider_ckpt.spark.app.known_warnings import INTERRUPTED, ignore_interruptions


def test_py4j_logs_failed_batches_and_no_interrupted_ones(caplog: pytest.LogCaptureFixture) -> None:
    """The bug: a worker that was stopped cleanly logged the interruption and left a file with its stack trace."""
    ignore_interruptions()
    for message in (f"{INTERRUPTED}: the query was stopped", "no such shop"):
        try:
            raise RuntimeError(message)
        except RuntimeError:
            clientserver.logger.exception("There was an exception while executing the Python Proxy")
    assert [str(record.exc_info and record.exc_info[1]) for record in caplog.records] == ["no such shop"]
