"""Shorter housekeeping interval for the drivers of tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from airflow_provider_ckpt.jobmaster import job_master

INTERVAL = 0.1
"""Seconds between two checks. Nearly every run waits for a check that finds it RUNNING, and for a check that finds a
request."""
_lock = threading.Lock()
_patch = mock.patch.object(job_master, "HOUSEKEEPING", INTERVAL)
_runs = 0


@contextmanager
def frequent_housekeeping() -> Iterator[None]:
    """Let drivers check their fences and requests more often.

    Runs are counted, because overlapping drivers of a test would otherwise restore each other's value.
    """
    global _runs
    with _lock:
        if _runs == 0:
            _patch.start()
        _runs += 1
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if _runs == 0:
                _patch.stop()
