"""Processes of this host: whether a process still exists, and the scope in which its pid is valid."""

from __future__ import annotations

import os
from pathlib import Path


def boot_id() -> str | None:
    """Return an id that differs for each host and boot; None if it is unknown. A pid is valid only in one boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def pid_namespace() -> str | None:
    """Return the namespace in which a pid is valid; None if the system has no namespaces or hides them."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def process_started(pid: int) -> str | None:
    """Return the start time of a process, in clock ticks since boot; None if the process is gone.

    A zombie (exited, but not reaped) counts as gone, because it no longer writes.

    Raises OSError if the time cannot be read, because too many files are open or another user's process is hidden.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        if _is_known(pid):
            raise
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def _is_known(pid: int) -> bool:
    """Return whether the process exists, even if the system hides its details."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
