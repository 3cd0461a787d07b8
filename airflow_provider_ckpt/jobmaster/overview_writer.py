"""The writer of a job's overview. It never delays or fails the job."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

from airflow_provider_ckpt.concurrency import DaemonThreads
from airflow_provider_ckpt.connections.environment import secrets_of_connections
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.status.job_overview import UNCHANGED, JobOverview, write_overview
from airflow_provider_ckpt.storage.redaction import given_secrets, redact
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)
LAST_WRITE = 10.0
"""Maximum seconds that the end of a run waits for a write in progress, and again for the last overview."""


class OverviewWriter:
    """Writes overviews in a thread of its own, at most one at a time.

    Args:
        interval: Minimum seconds between the starts of two writes; 0 turns overviews off.
    """

    def __init__(self, storage: Storage, interval: float) -> None:
        self._storage, self._interval = storage, interval
        self._next_write = -math.inf if interval else math.inf
        self._threads, self._is_idle = DaemonThreads(), threading.Event()
        self._is_idle.set()
        self._has_failed = False
        self._last: JobOverview | None = None
        """The last overview that was written, or whose write is in progress; None before, and after a failed write."""

    def write_if_due(self, now: float, make: Callable[[], JobOverview]) -> None:
        """Write the overview that ``make`` returns, if one is due and the last write has ended.

        ``make`` is called in the caller's thread. ``now`` is in seconds that never go back.
        """
        if now >= self._next_write and self._is_idle.is_set():
            self._next_write = now + self._interval
            overview, last = self._made(make), self._last
            if overview is None:
                return
            if last is None or overview.at - last.at >= UNCHANGED or overview.differs_from(last):
                self._start(overview)

    def close(self, make: Callable[[], JobOverview]) -> None:
        """Write the last overview of a run, and wait for it at most :data:`LAST_WRITE` seconds.

        Write nothing if overviews are off, or if the write before is still in progress after as many seconds.
        """
        if self._interval and self._is_idle.wait(LAST_WRITE / 2) and (overview := self._made(make)) is not None:
            self._start(overview)
            self._threads.join(LAST_WRITE / 2)

    def _made(self, make: Callable[[], JobOverview]) -> JobOverview | None:
        try:
            return make()
        except Exception as error:  # the job does not depend on its overview
            self._warn(f"{type(error).__name__}: {error}")
            return None

    def _start(self, overview: JobOverview) -> None:
        self._last = overview
        self._is_idle.clear()
        self._threads.start("ckpt-overview", lambda: self._write(overview))

    def _write(self, overview: JobOverview) -> None:
        try:
            write_overview(self._storage, overview.redacted(_redact))
        except Exception as error:
            self._last = None
            self._warn(str(error) if isinstance(error, CkptError) else f"{type(error).__name__}: {error}")
        else:
            self._has_failed = False
        finally:
            self._is_idle.set()

    def _warn(self, cause: str) -> None:
        """Log ``cause``, unless the write before failed, too. The next write comes soon."""
        if not self._has_failed:
            log.warning("the job's overview was not written, `ckpt show` may show old numbers: %s", cause)
        self._has_failed = True


def _redact(text: str) -> str:
    return redact(text, {*given_secrets(), *secrets_of_connections()})
