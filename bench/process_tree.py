"""CPU time and end of a process and its children. It uses only the standard library, because job files import it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path


def tree_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its children, also of ended ones; 0 if the process is gone."""
    total = 0.0
    with contextlib.suppress(OSError):  # processes and threads come and go meanwhile
        numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, numbers[11:15])) / os.sysconf("SC_CLK_TCK")
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += sum(tree_seconds(int(child)) for child in (task / "children").read_text().split())
    return total


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and its process group, which it must lead. Return when they are gone."""
    deadline = time.monotonic() + 10
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
