"""Who runs a job: the identity a driver writes into its epoch claim, and making sure the last one is gone (R8)."""

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

_DYING = 30.0
"""Seconds a killed process gets to be gone: one that hangs in the kernel may stay for ever."""


def identify(application_id: str | None = None) -> Worker:
    """This process."""
    pid = os.getpid()
    started = None
    with contextlib.suppress(OSError):  # then nobody can judge it: the fence alone holds it
        started = process_started(pid)
    return Worker(socket.gethostname(), boot_id(), pid, started, application_id, pid_namespace())


def identify_shared() -> Worker:
    """This process, which has other things to do: nobody is to kill it, whoever takes over from what runs here. Without
    its start it cannot be judged, and the fence alone holds it."""
    return replace(identify(), started=None)


def is_alive(worker: Worker) -> bool | None:
    """True/False if the worker can be judged from here, None if not: it ran on another host or boot, in another
    container, or cannot be seen."""
    if worker.host != socket.gethostname() or worker.boot_id != boot_id():
        return None
    if worker.pid is None or worker.started is None:
        return None
    if worker.pid_namespace not in (None, pid_namespace()):  # None: written before it was noted
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
    """Wait ``grace`` seconds for a fenced worker to leave by itself, then kill it.

    Returns what happened: "gone", "left", "killed", or "unreachable" (another host, another user's process, one
    that the system does not end, or one that is no driver of this job: only the fence holds it). Called after the
    epoch was claimed, before any Spark folder is touched.

    Args:
        worker: process that the journal names. The entry may be forged.
        root: URI of the root that the journal is under.
        job_id: job of the journal.
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
    deadline = clock() + _DYING
    while is_alive(worker) is not False:
        if clock() >= deadline:
            return "unreachable"
        sleep(0.02)
    return "killed"
