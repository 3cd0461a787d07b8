"""Identity of a driver process for its epoch claim, and the end of the previous driver's process (R8)."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace

from airflow_provider_ckpt.journal.driver_mark import is_marked
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.processes import boot_id, pid_namespace, process_started

_KILL_TIMEOUT = 30.0
"""Seconds to wait for a killed process to end, because it may hang in the kernel for ever."""


def identify(application_id: str | None = None) -> Worker:
    """Return the identity of this process. ``application_id`` is the id of its Spark application, or None."""
    pid = os.getpid()
    started = None
    with contextlib.suppress(OSError):  # without a start time only the fence stops it
        started = process_started(pid)
    return Worker(socket.gethostname(), boot_id(), pid, started, application_id, pid_namespace())


def identify_shared() -> Worker:
    """Return the identity of this process without its start time.

    So no later driver kills the process, and only the fence stops it.
    """
    return replace(identify(), started=None)


def is_alive(worker: Worker) -> bool | None:
    """Return whether the worker's process runs; None if that is unknown here (another host, boot or container)."""
    if worker.host != socket.gethostname() or worker.boot_id != boot_id():
        return None
    if worker.pid is None or worker.started is None:
        return None
    if worker.pid_namespace != pid_namespace():
        return None
    try:
        return process_started(worker.pid) == worker.started
    except OSError:
        return None


def end_worker(
    worker: Worker,
    root: str,
    job_id: str,
    *,
    grace: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Wait ``grace`` seconds for the process of a fenced worker to exit by itself, then kill the process.

    Call this after the claim and before any Spark folder is touched. Return "gone" (it had exited before), "left" (it
    exited by itself), "killed", or "unreachable" (only the fence stops the worker). An unreachable process is on
    another host, belongs to another user, has no mark as this job's driver, or does not end. Only a marked process
    is killed, because a journal may be forged.
    """
    alive = is_alive(worker)
    if alive is None:
        return "unreachable"
    if not alive or worker.pid is None or worker.pid == os.getpid():
        return "gone"
    if not is_marked(worker, root, job_id):
        return "unreachable"
    deadline = clock() + grace
    while clock() < deadline:
        if is_alive(worker) is False:
            return "left"
        sleep(0.05)
    if is_alive(worker) is None or not is_marked(worker, root, job_id):  # another process may have its pid by now
        return "unreachable"
    try:
        os.kill(worker.pid, signal.SIGKILL)
    except ProcessLookupError:
        return "left"
    except PermissionError:
        return "unreachable"
    deadline = clock() + _KILL_TIMEOUT
    while is_alive(worker) is not False:
        if clock() >= deadline:
            return "unreachable"
        sleep(0.02)
    return "killed"
