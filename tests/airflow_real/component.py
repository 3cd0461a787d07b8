"""Part of Airflow in its own process, which a test may kill or freeze."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.processes import Process, send

_NAME = "AIRFLOW_COMPONENT"


class Component:
    """Component of Airflow. ``arguments``: arguments of the ``airflow`` command.

    Airflow takes ``name`` for the component's host, so its heartbeats and its work can be distinguished from another
    component's.
    """

    def __init__(self, name: str, arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self.name, self._arguments, self._folder = name, arguments, folder
        self._env = {**env, _NAME: name, "AIRFLOW__CORE__HOSTNAME_CALLABLE": f"{__name__}.own_component_name"}
        self._processes: list[Process] = []

    def start(self) -> None:
        log = self._folder / f"{self.name}-{len(self._processes)}.log"
        self._processes.append(Process([sys.executable, "-m", "airflow", *self._arguments], log, env=self._env))

    def kill(self) -> None:
        """Kill the component and all its children with ``kill -9``, as if its host were lost."""
        self._process.end()

    def kill_alone(self) -> None:
        """Kill only the component with ``kill -9``, as the kernel does when memory is short. Its children continue."""
        send(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def freeze(self) -> None:
        """Freeze the component. Like a paused virtual machine it does not notice the time that passes."""
        self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.signal(signal.SIGCONT)

    def revive(self) -> bool:
        """Start the component again if it has ended. Return True if it had."""
        had_ended = self.has_ended
        if had_ended:
            self.start()
        return had_ended

    def end(self) -> None:
        for process in self._processes:
            process.end()

    @property
    def has_ended(self) -> bool:
        return self._process.exit_code is not None

    def runs(self, pid: int) -> bool:
        return pid in self._process.session()

    def tail(self, characters: int = 3000) -> str:
        return self._process.tail(characters) if self._processes else ""

    @property
    def _process(self) -> Process:
        return self._processes[-1]


def own_component_name() -> str:
    return os.environ[_NAME]
