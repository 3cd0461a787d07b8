"""Who runs a job: the identity a driver writes into its epoch claim, and making sure the last one is gone (R8)."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from airflow_provider_ckpt.model.worker import Worker

_DYING = 30.0
"""Seconds a killed process gets to be gone: one that hangs in the kernel may stay for ever."""


def boot_id() -> str | None:
    """Changes at every boot (and differs between hosts), so a pid means something only beside it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def pid_namespace() -> str | None:
    """In which a pid means something; None where the system has none, or does not show it."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def process_started(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot, None if it is gone.

    A zombie (exited, not yet reaped) counts as gone: it writes nothing any more. Raises OSError if it cannot be seen:
    by one that has no files left to open, or where the system hides the processes of others.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        if _is_there(pid):
            raise
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def _is_there(pid: int) -> bool:
    """Whether the system knows such a process, also one that it does not show."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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
    *,
    grace: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Wait ``grace`` seconds for a fenced worker to leave by itself, then kill it.

    Returns what happened: "gone", "left", "killed", or "unreachable" (another host, another user's process, or one
    that the system does not end: only the fence holds it). Called after the epoch was claimed, before any Spark
    folder is touched.
    """
    alive = is_alive(worker)
    if alive is None:
        return "unreachable"
    if not alive or worker.pid is None or worker.pid == os.getpid():
        return "gone"
    deadline = clock() + grace
    while clock() < deadline:
        if is_alive(worker) is False:
            return "left"
        sleep(0.05)
    if is_alive(worker) is None:  # another process may have its pid by now
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
