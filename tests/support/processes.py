"""Real processes, each in a session of its own, so that tests can find and end all its children."""

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
    """Command in its own session, with its output in the file ``log``."""

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
        """Exit code: None while the process runs, negative for the signal that ended it."""
        return self._popen.poll()

    def wait(self, seconds: float = 180.0) -> int:
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} did not end within {seconds:.0f} s\n{self.tail()}") from None

    def ended_within(self, seconds: float) -> bool:
        """Wait for so many seconds, or less if the process ends."""
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def session(self) -> list[int]:
        """Return the living processes of the session, the command included."""
        return session_members(self.pid)

    def command_lines(self) -> str:
        """Return the command lines of the session's processes. Other tests' processes may hold the same secrets."""
        return "\n".join(map(command_line, self.session()))

    def jvms(self) -> list[int]:
        return [pid for pid in self.session() if command_name(pid) == "java"]

    def signal(self, number: signal.Signals, pids: Iterable[int] | None = None) -> None:
        for pid in self.session() if pids is None else pids:
            send(pid, number)

    def end(self) -> None:
        """Kill all processes of the session and return when they are gone."""
        self.signal(signal.SIGKILL)
        self._popen.wait(60)
        wait_until(lambda: not self._killed(), f"the end of session {self.pid}", seconds=60)

    def _killed(self) -> list[int]:
        """Kill the processes, including any that start meanwhile."""
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
    """Return the living processes of a session. Zombies count as ended."""
    processes = []
    for entry in Path("/proc").iterdir():
        fields = _stat(int(entry.name)) if entry.name.isdigit() else None
        if fields is not None and int(fields[3]) == session and fields[0] != "Z":
            processes.append(int(entry.name))
    return processes


def is_alive(pid: int) -> bool:
    fields = _stat(pid)
    return fields is not None and fields[0] != "Z"


def stands_still(pid: int) -> bool:
    """Return True if a signal has stopped the process."""
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


def command_line(pid: int) -> str:
    """Return the command line as ``ps`` shows it, or "" if the process is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/<pid>/stat`` from the state on, or None if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
