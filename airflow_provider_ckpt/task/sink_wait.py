"""Waits while the target of a sink does not take rows for now: a lock, a standby, a server that restarts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from airflow_provider_ckpt.errors import CkptError

T = TypeVar("T")
LONGEST_PAUSE = 10.0
"""Seconds from one try to the next one, at most. The first pause is 1 s, and each next one is twice as long."""
_POLL = 0.1


class SinkWait:
    """The waits of one sink for one batch.

    An attempt may nest calls. When the inner one gives up, the outer one does, too.

    Args:
        timeout: Seconds after the first failure for which a call is tried again.
        is_over: Return whether the run is over, so that nothing is tried again.
        check_fenced: Raise if a later driver or attempt owns the job. Called before each further try (R8).
        report: Take the seconds and the error, after 1, 2, 4, 8, ... failures.
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
        self._has_given_up = False

    def call(self, act: Callable[[], T]) -> T:
        """Return what ``act`` returns. Try again while it fails with an error that may pass.

        Raises what ``act`` fails with when the timeout is over, when the run is over, or when no further try helps.
        """
        failures, since = 0, 0.0
        while True:
            try:
                return act()
            except CkptError as error:
                failures += 1
                since = self._clock() if failures == 1 else since
                waited = self._clock() - since
                if not error.retryable or self._has_given_up or self._is_over():
                    raise
                if waited >= self._timeout:
                    self._has_given_up = True
                    raise
                if failures & (failures - 1) == 0:
                    self._report(waited, error)
                if not self._pause(min(LONGEST_PAUSE, 2.0 ** min(failures - 1, 10))):
                    raise
            self._check_fenced()

    @staticmethod
    def none(uid: str, is_over: Callable[[], bool]) -> SinkWait:
        """Return the waits of a sink that is asked once."""
        return SinkWait(0.0, is_over=is_over, check_fenced=lambda: None, report=lambda seconds, error: None)

    def _pause(self, seconds: float) -> bool:
        """Return False if the run is over meanwhile."""
        until = self._clock() + seconds
        while self._clock() < until:
            if self._is_over():
                return False
            self._sleep(_POLL)
        return True
