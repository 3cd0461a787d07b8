"""Processes of this host: whether one still exists, and the scope in which its number is valid."""

from __future__ import annotations

import os
from pathlib import Path


def boot_id() -> str | None:
    """Return an id that changes at every boot and differs between hosts. A pid is valid only together with it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def pid_namespace() -> str | None:
    """Return the namespace in which a pid is valid, or None where the system has none or hides it."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def process_started(pid: int) -> str | None:
    """Return the start time of a process in clock ticks since boot, or None if it is gone.

    A zombie (exited, not yet reaped) counts as gone, because it no longer writes.

    Raises OSError if the process cannot be seen: too many open files, or hidden processes of other users.
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
    """Return whether the system knows such a process, even if it hides it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
