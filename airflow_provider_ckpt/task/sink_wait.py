"""The waits for a sink's target that accepts no rows for a time: it is locked, on standby or restarting."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from airflow_provider_ckpt.errors import CkptError

T = TypeVar("T")
LONGEST_PAUSE = 10.0
"""Longest pause in seconds between two tries. The first pause is 1 s. Pauses double up to this limit."""
_POLL = 0.1


class SinkWait:
    """The retries of one sink's calls for one batch.

    Calls may be nested. When the inner call times out, the outer call stops retrying, too.

    Args:
        timeout: seconds after the first failure during which a call is retried.
        is_over: returns True if the run is over. Then nothing is retried.
        check_fenced: called before each retry (R8). Raises if a later driver or attempt owns the job.
        report: called with the seconds since the first failure and the error, after 1, 2, 4, 8, ... failures.
    """

    def __init__(
        self,
        timeout: float,
        *,
        is_over: Callable[[], bool],
        check_fenced: Callable[[], None],
        report: Callable[[float, CkptError], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._timeout, self._is_over, self._check_fenced, self._report = timeout, is_over, check_fenced, report
        self._clock, self._sleep = clock, sleep
        self._has_timed_out = False

    def call(self, act: Callable[[], T]) -> T:
        """Return the result of ``act``. Retry it while it fails with an error that may pass.

        Raises the error of ``act`` when the timeout or the run is over, or when no retry helps.
        """
        failures, since = 0, 0.0
        while True:
            try:
                return act()
            except CkptError as error:
                failures += 1
                since = self._clock() if failures == 1 else since
                waited = self._clock() - since
                if not error.retryable or self._has_timed_out or self._is_over():
                    raise
                if waited >= self._timeout:
                    self._has_timed_out = True
                    raise
                if failures & (failures - 1) == 0:
                    self._report(waited, error)
                if not self._pause(min(LONGEST_PAUSE, 2.0 ** min(failures - 1, 10))):
                    raise
            self._check_fenced()

    @staticmethod
    def single_try(uid: str, is_over: Callable[[], bool]) -> SinkWait:
        """Return a SinkWait that never retries."""
        return SinkWait(0.0, is_over=is_over, check_fenced=lambda: None, report=lambda seconds, error: None)

    def _pause(self, seconds: float) -> bool:
        """Wait ``seconds``. Return False if the run ends meanwhile."""
        until = self._clock() + seconds
        while self._clock() < until:
            if self._is_over():
                return False
            self._sleep(_POLL)
        return True
