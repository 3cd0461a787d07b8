"""A JobMaster in a thread of an Airflow task's process."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

from airflow_provider_ckpt.report.exit_code import ExitCode

if TYPE_CHECKING:
    from airflow_provider_ckpt.job.options import RunOptions
    from airflow_provider_ckpt.remote.master import Master
    from airflow_provider_ckpt.report.status_reporter import OnStatus
    from airflow_provider_ckpt.storage.location import Location


class MasterHost:
    """Use once: :meth:`start`, then :meth:`wait`. ``options.job``: a reference that can be loaded here.

    The main thread only waits, so that a signal is heard at once; it may be left before the JobMaster has ended: as if
    the process had been killed, the next JobMaster claims the job, and the workers go on meanwhile.
    """

    def __init__(self, options: RunOptions, location: Location, on_status: OnStatus) -> None:
        self._options, self._location, self._on_status = options, location, on_status
        self._news: queue.SimpleQueue[ExitCode | None] = queue.SimpleQueue()  # its put may interrupt anything
        self._thread = threading.Thread(target=self._run, name="ckpt-master", daemon=True)
        self._lock = threading.Lock()
        self._master: Master | None = None
        self._given_up: str | None = None

    def start(self) -> None:
        self._thread.start()

    def wait(self, seconds: float) -> ExitCode | None:
        """How the run has ended; None if it has not within ``seconds``, or somebody has called :meth:`wake`."""
        try:
            return self._news.get(timeout=seconds)
        except queue.Empty:
            return None

    def wake(self) -> None:
        """May be called by a signal's handler, in the thread that waits."""
        self._news.put(None)

    def has_ended_within(self, seconds: float) -> bool:
        """For a signal's handler, too."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def give_up(self, cause: str) -> None:
        """See :meth:`Master.give_up`; the first cause holds."""
        with self._lock:
            if self._given_up is None and self._master is not None:
                self._master.give_up(cause)
            self._given_up = self._given_up or cause

    @property
    def given_up(self) -> str | None:
        return self._given_up

    def _run(self) -> None:
        code = ExitCode.FAILED
        try:
            code = self._run_master()
        finally:
            self._news.put(code)

    def _run_master(self) -> ExitCode:
        from airflow_provider_ckpt.job.loading import load_job
        from airflow_provider_ckpt.remote.master import RemoteJob, run_master
        from airflow_provider_ckpt.remote.timing import Timing
        from airflow_provider_ckpt.report.status_line import StatusLine

        options = self._options
        try:
            job = load_job(options.job, options.params)
            job.validate()
        except Exception as error:
            code = ExitCode.of_error(error)
            self._on_status(StatusLine(code.told_as, str(error)))
            return code
        remote = RemoteJob(job, options, self._location, Timing.of(options.root))
        return run_master(remote, self._on_status, self._begins)

    def _begins(self, master: Master) -> None:
        with self._lock:
            self._master = master
            if self._given_up is not None:
                master.give_up(self._given_up)
