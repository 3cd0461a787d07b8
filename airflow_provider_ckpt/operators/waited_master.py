"""A JobMaster that the main thread of an Airflow task waits for."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_ckpt.remote.master_host import MasterHost

if TYPE_CHECKING:
    from airflow_provider_ckpt.remote.master import OnMaster
    from airflow_provider_ckpt.report.exit_code import ExitCode


class WaitedMaster:
    """The main thread only waits, so that a signal is heard at once. ``run``: see :class:`MasterHost`."""

    def __init__(self, run: Callable[[OnMaster], ExitCode]) -> None:
        self._news: queue.SimpleQueue[ExitCode | None] = queue.SimpleQueue()  # its put may interrupt anything
        self.host = MasterHost(run, self._news.put)

    def wait(self, seconds: float) -> ExitCode | None:
        """How the run has ended; None if it has not within ``seconds``, or somebody has called :meth:`wake`."""
        try:
            return self._news.get(timeout=seconds)
        except queue.Empty:
            return None

    def wake(self) -> None:
        """May be called by a signal's handler, in the thread that waits."""
        self._news.put(None)
