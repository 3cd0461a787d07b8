"""A process and all that it started: their CPU, their end. Only the standard library, as files of jobs import it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path


def tree_seconds(pid: int) -> float:
    """CPU seconds of a process, of those it started, and of those that have ended; 0 of one that is gone."""
    total = 0.0
    with contextlib.suppress(OSError):  # processes and threads come and go meanwhile
        numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, numbers[11:15])) / os.sysconf("SC_CLK_TCK")
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += sum(tree_seconds(int(child)) for child in (task / "children").read_text().split())
    return total


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends it and what is left of its process group, which it must lead; returns when they are gone."""
    deadline = time.monotonic() + 10
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
