"""The demo's child processes: each is the leader of a session of its own, so that nothing it starts is lost."""

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
    """``python <arguments>``, its output in ``log``; its standard input is closed when this process ends."""

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
        """Every living process of the session, also those whose parents have gone."""
        return [process for process in psutil.process_iter() if _session(process.pid) == self.pid and lives(process)]

    def submission(self, driver: int) -> list[psutil.Process]:
        """spark-submit's process (the JVM) and all below it; ``driver`` is the Python process in it."""
        chain = [psutil.Process(driver), *psutil.Process(driver).parents()]
        below = [process for process in chain[:-1] if self.pid in [parent.pid for parent in process.parents()]]
        top = below[-1]
        return [top, *top.children(recursive=True)]

    def end(self) -> None:
        """Kill the session and wait until nothing of it is left. Quiet if it has ended."""
        while members := self.members():
            kill(members)
        self._process.communicate()


def kill(processes: Sequence[psutil.Process]) -> None:
    """``kill -9``, all of them before any can do something about it; returns when they are gone."""
    for process in processes:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    while any(lives(process) for process in processes):
        time.sleep(0.02)


def lives(process: psutil.Process) -> bool:
    """A zombie has ended; its parent has not asked yet."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
