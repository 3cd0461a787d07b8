"""The demo's child processes. Each leads a session of its own, so that all its descendants can be found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil  # type: ignore[import-untyped]


class Child:
    """The process ``python <arguments>`` with its output in ``log``. Its standard input is closed when this process
    ends.
    """

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        return self._process.poll()

    def members(self) -> list[psutil.Process]:
        """Return every living process of the session, also those whose parents have ended."""
        return [process for process in psutil.process_iter() if _session(process.pid) == self.pid and lives(process)]

    def submission(self, driver: int) -> list[psutil.Process]:
        """Return spark-submit's process (the JVM) and its descendants; ``driver`` is the Python process among them."""
        chain = [psutil.Process(driver), *psutil.Process(driver).parents()]
        below = [process for process in chain[:-1] if self.pid in [parent.pid for parent in process.parents()]]
        top = below[-1]
        return [top, *top.children(recursive=True)]

    def end(self) -> None:
        """Kill the session and wait until all of it has ended. Do nothing if it has already ended."""
        while members := self.members():
            kill(members)
        self._process.communicate()


def kill(processes: Sequence[psutil.Process]) -> None:
    """Send SIGKILL to all processes at once, so that none can react, and wait until they have ended."""
    for process in processes:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    while any(lives(process) for process in processes):
        time.sleep(0.02)


def lives(process: psutil.Process) -> bool:
    """Return True if the process runs. A zombie has ended, but its parent has not collected it."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
