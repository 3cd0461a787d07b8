"""How long a JobMaster that fails by itself, and not with its job, is begun again in its triggerer: each try of its
task would look at the same storage, and after a few of them the job would have nobody any more."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_ckpt.remote.timing import SILENCE
from airflow_provider_ckpt.report.exit_code import ExitCode

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.triggers.master_verdict import MasterVerdict


class Failing:
    """``limit``: seconds without another completed checkpoint: as long as the workers go on without a JobMaster."""

    def __init__(self, limit: float = SILENCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._since: float | None = None
        self._completed = -1

    def may_go_on(self, verdict: MasterVerdict, state: JobState | None) -> bool:
        """``state``: of the job; None if that cannot be read. Nobody goes on with a run that ended, or was given up."""
        if verdict.exit_code is not ExitCode.FAILED or verdict.given_up is not None:
            return False
        if state is not None and not state.deployment:
            return False
        now = self._clock()
        if state is not None and state.last_completed > self._completed:
            self._completed, self._since = state.last_completed, now
        self._since = now if self._since is None else self._since
        return now - self._since < self._limit
