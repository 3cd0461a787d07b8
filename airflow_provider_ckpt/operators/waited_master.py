"""The JobMaster for which the main thread of an Airflow task waits."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_ckpt.remote.master_host import MasterHost

if TYPE_CHECKING:
    from airflow_provider_ckpt.remote.master import OnMaster
    from airflow_provider_ckpt.report.exit_code import ExitCode


class WaitedMaster:
    """JobMaster in another thread. The main thread only waits, so that it handles a signal at once.

    ``run`` runs the JobMaster, see :class:`MasterHost`.
    """

    def __init__(self, run: Callable[[OnMaster], ExitCode]) -> None:
        self._news: queue.SimpleQueue[ExitCode | None] = queue.SimpleQueue()  # reentrant: a signal handler may put
        self.host = MasterHost(run, self._news.put)

    def wait(self, seconds: float) -> ExitCode | None:
        """Return how the run ended. None if it did not end within ``seconds``, or if :meth:`wake` was called."""
        try:
            return self._news.get(timeout=seconds)
        except queue.Empty:
            return None

    def wake(self) -> None:
        """End a :meth:`wait`. A signal handler may call this in the waiting thread."""
        self._news.put(None)
