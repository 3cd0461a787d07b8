"""Handling of SIGINT and SIGTERM. The first signal stops a driver with a savepoint. The second signal ends it at once.

Spark's JVM is a separate process: the driver's parent under ``spark-submit``, otherwise its child. A SIGTERM may reach
the driver, the JVM or both. If the JVM ended at the signal, no savepoint could be taken. So the JVM ignores its first
SIGTERM and passes it on to the driver.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.status.status_reporter import OnStatus
from airflow_provider_ckpt.storage.location import Location

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ASK_SECONDS = 20.0
"""Seconds after which the driver exits without a savepoint if the stop request is still not written to the root."""


class FirstSignal:
    """Handlers of SIGINT and SIGTERM.

    The first signal calls ``on_signal`` with the signal's name. The second signal ends the process.
    """

    def __init__(self, on_signal: Callable[[str], None]) -> None:
        self._on_signal = on_signal
        self._previous: dict[signal.Signals, Any] = {}
        self._is_handled = threading.Event()
        self._jvm: _JvmSignal | None = None

    def install(self) -> None:
        """Install the handlers. Call this after Spark's start, because Spark sets a handler for SIGINT.

        Do nothing outside of the main thread, because only the main thread can set handlers.
        """
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._first) for number in SIGNALS}
            self._jvm = _JvmSignal.install(self._from_jvm)

    def restore(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
        if self._jvm is not None:
            self._jvm.restore()

    def _first(self, number: int, frame: FrameType | None) -> None:
        for other_number, handler in self._previous.items():
            signal.signal(other_number, handler)  # a second signal ends this process, and the JVM with it
        self._handle(signal.Signals(number).name)

    def _from_jvm(self, times: int) -> None:
        """Handle a SIGTERM of the JVM, in a thread of Spark. ``times``: number of such signals, with this one."""
        if times > 1:
            os._exit(128 + signal.SIGTERM)  # as the default action would, which a thread cannot set
        self._handle("SIGTERM")

    def _handle(self, name: str) -> None:
        if self._is_handled.is_set():
            return  # the driver and its JVM both got the signal
        self._is_handled.set()
        try:
            self._on_signal(name)
        except BaseException:
            self._is_handled.clear()  # if driver and JVM both got the signal, the other one tries again
            raise


class LeaveOnSignal:
    """Receiver of a driver's status lines. It makes a signal stop the job as ``ckpt stop`` does.

    Each status line is passed on to ``show``. The handlers are installed at the first line that names an epoch, because
    no run has begun before. After a signal the driver exits within the checkpoint timeout, with a savepoint, or
    without one (exit code 1).

    Another thread writes the stop request, because the main thread may wait for a root that does not answer. If the
    request is not written within ``ask_seconds``, the process exits at once.
    """

    def __init__(
        self, options: RunOptions, root: Location, show: OnStatus, *, ask_seconds: float = ASK_SECONDS
    ) -> None:
        self._options, self._root, self._show, self._ask_seconds = options, root, show, ask_seconds
        self._epoch = 0
        self._signals = FirstSignal(self._request_stop)

    def __call__(self, line: StatusLine) -> None:
        """Show the line, and record its epoch for a later stop request. An upgrade changes the epoch."""
        self._show(line)
        if "epoch" in line.data:
            is_first, self._epoch = not self._epoch, line.data["epoch"]
            if is_first:
                self._signals.install()

    def restore(self) -> None:
        """Restore the previous handlers."""
        self._signals.restore()

    def _request_stop(self, name: str) -> None:
        _print(f"{name}: taking a savepoint, then leaving; once more to leave at once")
        silent = f"the root {self._root} has not answered for {self._ask_seconds:g} s"
        watch = threading.Timer(self._ask_seconds, _leave_at_once, (name, silent))
        watch.daemon = True
        watch.start()
        threading.Thread(target=self._stop, args=(name, watch), name="ckpt-signal", daemon=True).start()

    def _stop(self, name: str, watch: threading.Timer) -> None:
        try:
            JobClient(self._root, self._options.job_id).stop(epoch=self._epoch, exit_if_it_fails=True)
        except CkptError as error:
            _leave_at_once(name, str(error))
        finally:
            watch.cancel()


def leave_on_signal(leave: Callable[[], None]) -> FirstSignal:
    """Return handlers for a worker. The first signal calls ``leave``, which ends the worker after its micro-batch."""

    def on_signal(name: str) -> None:
        _print(f"{name}: leaving at the end of the micro-batch; once more to leave at once")
        leave()

    return FirstSignal(on_signal)


def _leave_at_once(name: str, reason: str) -> None:
    """End the process at once, as a second signal does. The next run restores the last completed checkpoint."""
    _print(f"{name}: leaving without a savepoint: {reason}")
    sys.stdout.flush()
    os._exit(128 + signal.Signals[name])


def _print(text: str) -> None:
    print(f"ckpt: {text}", file=sys.stderr, flush=True)


class _JvmSignal:
    """Handler for SIGTERM in Spark's JVM. It replaces the JVM's own handler, which would run Spark's shutdown hooks."""

    def __init__(self, on_signal: Callable[[int], None], jvm: Any) -> None:
        self._on_signal, self._jvm = on_signal, jvm
        self._times = 0
        self._previous: Any = None

    @classmethod
    def install(cls, on_signal: Callable[[int], None]) -> _JvmSignal | None:
        """Install a handler in the JVM and return it; None if Spark does not run in this process."""
        session = SparkSession.getActiveSession()
        if session is None:
            return None
        ensure_callback_server_started(session.sparkContext._gateway)  # type: ignore[no-untyped-call]
        handler = cls(on_signal, session._jvm)
        handler._previous = handler._set(handler)
        return handler

    def restore(self) -> None:
        try:
            self._set(self._previous)
        except (Py4JError, OSError):  # the JVM has ended already
            pass

    def _set(self, handler: Any) -> Any:
        """Set a handler and return the previous one."""
        misc = self._jvm.sun.misc
        return misc.Signal.handle(misc.Signal("TERM"), handler)

    def handle(self, signal_: Any) -> None:
        """Count the signals, and call ``on_signal`` with their number. The JVM calls this in a thread of its own."""
        self._times += 1
        self._on_signal(self._times)

    class Java:
        implements = ("sun.misc.SignalHandler",)
