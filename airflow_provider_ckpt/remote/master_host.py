"""A JobMaster in a thread of a process that also does other work."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_ckpt.status.exit_code import ExitCode

if TYPE_CHECKING:
    from airflow_provider_ckpt.remote.master import Master, OnMaster


class MasterHost:
    """The thread of one JobMaster. Call :meth:`start` only one time.

    The process may exit before the JobMaster has ended. This is as safe as a kill, because the next JobMaster claims
    the job. A process that continues must call :meth:`abandon`.

    Args:
        run: Called in the JobMaster's thread, with a function as argument. Makes the JobMaster, passes the JobMaster to
            that function, and runs the JobMaster to its end. Log records have the context of the thread that created
            this host.
        on_end: Called in the JobMaster's thread with the exit code of the run.
    """

    def __init__(self, run: Callable[[OnMaster], ExitCode], on_end: Callable[[ExitCode], None]) -> None:
        self._run_master, self._on_end = run, on_end
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=lambda: context.run(self._run), name="ckpt-master", daemon=True)
        self._lock = threading.Lock()
        self._master: Master | None = None
        self._end_cause: str | None = None
        self._is_abandoned = False

    def start(self) -> None:
        self._thread.start()

    def has_ended_within(self, seconds: float) -> bool:
        """Wait at most ``seconds``, and return True if the JobMaster has ended. Safe in a signal handler."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def end_early(self, cause: str) -> None:
        """End the run early (see :meth:`Master.end_early`). Only the first call has an effect."""
        with self._lock:
            if self._end_cause is None and self._master is not None:
                self._master.end_early(cause)
            self._end_cause = self._end_cause or cause

    @property
    def end_cause(self) -> str | None:
        """Cause of an early end; None if :meth:`end_early` was not called."""
        return self._end_cause

    @property
    def has_unassigned(self) -> bool:
        """True if the run has not begun, or if a subtask has no known worker."""
        return self._master is None or self._master.has_unassigned

    def abandon(self) -> None:
        """Abandon the run without an end, as if the process were killed (see :meth:`Master.abandon`)."""
        with self._lock:
            self._is_abandoned = True
            if self._master is not None:
                self._master.abandon()

    def _run(self) -> None:
        code = ExitCode.FAILED
        try:
            code = self._run_master(self._attach)
        finally:
            self._on_end(code)

    def _attach(self, master: Master) -> None:
        with self._lock:
            self._master = master
            if self._end_cause is not None:
                master.end_early(self._end_cause)
            if self._is_abandoned:
                master.abandon()
