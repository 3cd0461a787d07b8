"""The limit for restarts of a JobMaster that fails by itself, while its job is fine.

The triggerer restarts such a JobMaster. Each try of its task would meet the same storage. After a few tries the job
would have no JobMaster at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_ckpt.remote.timing import SILENCE
from airflow_provider_ckpt.status.exit_code import ExitCode

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.triggers.master_verdict import MasterVerdict


class MasterRestartPolicy:
    """Time limit for restarts of a failing JobMaster.

    ``limit`` is the number of seconds without another completed checkpoint after which it is no longer restarted.
    Workers continue without a JobMaster for as long.
    """

    def __init__(self, limit: float = SILENCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._since: float | None = None
        self._completed = -1

    def may_go_on(self, verdict: MasterVerdict, state: JobState | None) -> bool:
        """Return whether to restart the JobMaster. A run that has ended, or was given up, is not restarted.

        ``state`` is the job's, None if it cannot be read.
        """
        if verdict.exit_code is not ExitCode.FAILED or verdict.abandoned is not None:
            return False
        if state is not None and not state.deployment:
            return False
        now = self._clock()
        if state is not None and state.last_completed > self._completed:
            self._completed, self._since = state.last_completed, now
        self._since = now if self._since is None else self._since
        return now - self._since < self._limit
