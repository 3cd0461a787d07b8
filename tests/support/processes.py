"""Real processes, each in a session of its own, so that everything it started can be found and ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]


class Process:
    """A command in its own session; its output goes to the file ``log``."""

    def __init__(
        self, command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.log = log
        environ = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environ,
                cwd=cwd,
                start_new_session=True,
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; below 0: the signal that ended it."""
        return self._popen.poll()

    def wait(self, seconds: float = 180.0) -> int:
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} did not end within {seconds:.0f} s\n{self.tail()}") from None

    def ended_within(self, seconds: float) -> bool:
        """Let so much time pass, or less if it ends."""
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def session(self) -> list[int]:
        """Everything it started that is alive, itself included."""
        return session_members(self.pid)

    def jvms(self) -> list[int]:
        return [pid for pid in self.session() if command_name(pid) == "java"]

    def signal(self, number: signal.Signals, pids: Iterable[int] | None = None) -> None:
        for pid in self.session() if pids is None else pids:
            send(pid, number)

    def end(self) -> None:
        """Kill all of it, and return when all of it is gone."""
        self.signal(signal.SIGKILL)
        self._popen.wait(60)
        wait_until(lambda: not self._killed(), f"the end of session {self.pid}", seconds=60)

    def _killed(self) -> list[int]:
        """A process that was started while the others were killed is killed too."""
        left = self.session()
        self.signal(signal.SIGKILL, left)
        return left

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def tail(self, characters: int = 4000) -> str:
        return f"--- end of {self.log.name}\n{self.text()[-characters:]}"

    def __str__(self) -> str:
        return f"process {self.pid} ({self.log.name})"


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has ended meanwhile


def session_members(session: int) -> list[int]:
    """Living processes of a session (zombies have ended)."""
    found = []
    for entry in Path("/proc").iterdir():
        fields = _stat(int(entry.name)) if entry.name.isdigit() else None
        if fields is not None and int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    fields = _stat(pid)
    return fields is not None and fields[0] != "Z"


def stands_still(pid: int) -> bool:
    """It was stopped by a signal."""
    fields = _stat(pid)
    return fields is not None and fields[0] == "T"


def parent(pid: int) -> int:
    fields = _stat(pid)
    assert fields is not None, f"process {pid} is gone"
    return int(fields[1])


def command_name(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None


def _stat(pid: int) -> list[str] | None:
    """Fields of ``/proc/<pid>/stat`` from the state on; None if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
