"""Processes of this host: whether one still exists, and where its number means something."""

from __future__ import annotations

import os
from pathlib import Path


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
