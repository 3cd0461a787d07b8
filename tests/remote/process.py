"""A simulated process: it takes a step when the schedule chooses it, and may die or pause at any verb."""

from __future__ import annotations

import queue
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import SimulatedCrash, WrappedStorage

if TYPE_CHECKING:
    from tests.remote.cluster import Cluster


class SimulatedProcess(ABC):
    """A simulated process. ``error``: the exception that ended it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.storage = ProcessStorage(cluster.world.live, self)
        self.is_over = self.is_busy = False
        self.wakes_at = 0.0
        self.error: BaseException | None = None
        self.crashes_at: tuple[int, str] | None = None
        """Number of the mutating verb at which the process dies, and whether before or after its effect."""
        self.verbs = 0

    @property
    def can_run(self) -> bool:
        return not (self.is_over or self.is_busy) and self.cluster.clock.now >= self.wakes_at

    def kill(self) -> None:
        """Kill the process as ``kill -9`` does: no cleanup runs, and its memory is lost."""
        self.is_over = True

    def run(self) -> None:
        """Take one step. An exception ends the process."""
        self.is_busy = True
        try:
            self.step()
        except SimulatedCrash as crash:
            self.is_over, self.error = True, crash
        except CkptError as error:
            self.is_over, self.error = True, error
        finally:
            self.is_busy = False

    @abstractmethod
    def step(self) -> None: ...


class ProcessStorage(WrappedStorage):
    """The shared storage as one process uses it. Other processes may run between any two of its verbs."""

    def __init__(self, inner: Storage, process: SimulatedProcess) -> None:
        super().__init__(inner)
        self._process = process

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        process = self._process
        process.verbs += 1
        self._at("before", verb, path)
        act()
        self._at("after", verb, path)

    def _at(self, when: str, verb: str, path: str) -> None:
        process = self._process
        if process.is_over or process.crashes_at == (process.verbs, when):
            process.is_over = True
            raise SimulatedCrash(f"{process.name} {when} {verb} {path}")
        process.cluster.at_verb(process, when, verb, path)

    def create(self, path: str, data: bytes) -> None:
        def act() -> None:
            self.inner.create(path, data)
            self._process.cluster.world.created(path, data)

        self._mutate("create", path, act)

    def read(self, path: str) -> bytes:
        self._at("reading", "read", path)
        return super().read(path)

    def list(self, path: str) -> list[str]:
        self._at("reading", "list", path)
        return super().list(path)


class NoWait(queue.Queue[Any]):
    """A queue that never blocks. In the simulation time passes only between two steps."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return super().get(block=False)


class LaterThread:
    """A replacement for an executor: submitted functions run in order at later steps."""

    def __init__(self) -> None:
        self.work: deque[Callable[[], None]] = deque()

    def submit(self, function: Callable[..., None], *arguments: object) -> None:
        self.work.append(lambda: function(*arguments))

    def shutdown(self, *, wait: bool) -> None:
        while self.work:
            self.work.popleft()()
