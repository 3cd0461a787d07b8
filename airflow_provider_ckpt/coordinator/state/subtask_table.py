"""The coordinator's table of subtasks, and the state that it restores from earlier epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from airflow_provider_ckpt.coordinator.state.enumerator import RestoredSplits
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.vertex_settings import Settings


class SubtaskStatus(Enum):
    CREATED = "created"
    """Not deployed. In BATCH mode, an input of the subtask is not complete, or no slot is free."""
    STARTING = "starting"
    """Deployed, but the subtask has not reported that it runs."""
    RUNNING = "running"
    PAUSED = "paused"
    """The subtask was commanded to pause for a change of its plan, and may have paused (R20)."""
    RESTARTING = "restarting"
    """The next attempt has not begun. The previous attempt failed or was stopped, or there was none."""
    AT_END_OF_DATA = "at end of data"
    """The subtask waits for its final checkpoint. It appends barriers, so it counts as running (R15)."""
    FINISHING = "finishing"
    """The subtask was commanded to close, and may still append a barrier."""
    FINISHED = "finished"


_BLOCKING = (SubtaskStatus.CREATED, SubtaskStatus.STARTING, SubtaskStatus.PAUSED, SubtaskStatus.RESTARTING)
_ACTIVE = (SubtaskStatus.RUNNING, SubtaskStatus.AT_END_OF_DATA, SubtaskStatus.FINISHING)
_ENDED = (SubtaskStatus.AT_END_OF_DATA, SubtaskStatus.FINISHING, SubtaskStatus.FINISHED)


@dataclass(frozen=True)
class RestoredState:
    """The state of earlier epochs, from the journal and the tails of the logs.

    Attributes:
        last_released: the last checkpoint that every sink has released.
        unreleased: completed checkpoints above ``last_released``, ascending.
        sinks_released: sink → the last checkpoint that it has released, if that is above ``last_released``.
        ended: vertex → uids of its sources (or input edges) that have ended.
        dropped: vertex → uids of its sources (or input edges) that were left out.
        snapshots: the snapshots of ``last_completed``.
        draining: True if an earlier epoch accepted a drain, which continues.
        splits: source → its splits, for sources with splits that have not ended.
        settings: vertex → its settings that reconfigurations have changed.
        reconfigured: sequence number of the last decided reconfiguration; 0 if there was none.
        reconfigured_at: epoch seconds at which that reconfiguration was decided; 0 if there was none.
        hosts: subtask that a rescale added → subtask in whose process it runs (:class:`PlanRecorded`).
        waiting: added subtasks in ``hosts`` that have not begun.
    """

    last_triggered: int = 0
    last_completed: int = 0
    last_released: int = 0
    unreleased: tuple[int, ...] = ()
    sinks_released: Mapping[str, int] = field(default_factory=dict)
    ended: Mapping[str, Collection[str]] = field(default_factory=dict)
    dropped: Mapping[str, Collection[str]] = field(default_factory=dict)
    end_of_data: frozenset[SubtaskId] = frozenset()
    finished: frozenset[SubtaskId] = frozenset()
    snapshots: Mapping[SubtaskId, Snapshot] = field(default_factory=dict)
    draining: bool = False
    splits: Mapping[str, RestoredSplits] = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    reconfigured: int = 0
    reconfigured_at: float = 0.0
    hosts: Mapping[SubtaskId, SubtaskId] = field(default_factory=dict)
    waiting: tuple[SubtaskId, ...] = ()


class SubtaskTable:
    """The status and the attempt of every subtask, and the number of subtasks in each status.

    Args:
        attempts: unfinished subtask → its current attempt. Reports of other attempts do not count (R22).
        has_workers: True if workers run the subtasks. They first begin attempts after those in ``attempts``.
    """

    def __init__(
        self,
        graph: JobGraph,
        restored: RestoredState,
        attempts: Mapping[SubtaskId, AttemptId],
        *,
        has_workers: bool = False,
    ) -> None:
        unfinished = SubtaskStatus.RESTARTING if has_workers else SubtaskStatus.CREATED
        self._status: dict[SubtaskId, SubtaskStatus] = {}
        self._attempt = dict(attempts)
        for vertex in graph.vertices:
            for name in vertex.subtasks:
                is_finished = name in restored.finished
                self._status[name] = SubtaskStatus.FINISHED if is_finished else unfinished
        self._count = Counter(self._status.values())
        self._size = {vertex.uid: vertex.parallelism for vertex in graph.vertices}
        self._ended = Counter(name.vertex for name, status in self._status.items() if status in _ENDED)

    def __contains__(self, subtask: SubtaskId) -> bool:
        return subtask in self._status

    def __len__(self) -> int:
        return len(self._status)

    def add(self, subtask: SubtaskId, previous: AttemptId) -> None:
        """Add a subtask that is new in the graph. Its first attempt follows ``previous`` and has not begun."""
        self._status[subtask], self._attempt[subtask] = SubtaskStatus.RESTARTING, previous
        self._count[SubtaskStatus.RESTARTING] += 1
        self._size[subtask.vertex] += 1

    def status(self, subtask: SubtaskId) -> SubtaskStatus:
        return self._status[subtask]

    def set_status(self, subtask: SubtaskId, status: SubtaskStatus) -> None:
        previous = self._status[subtask]
        self._count[previous] -= 1
        self._status[subtask] = status
        self._count[status] += 1
        self._ended[subtask.vertex] += (status in _ENDED) - (previous in _ENDED)

    def statuses(self) -> Mapping[SubtaskId, SubtaskStatus]:
        return dict(self._status)

    def in_status(self, *statuses: SubtaskStatus) -> Iterable[SubtaskId]:
        return [name for name, status in self._status.items() if status in statuses]

    def count(self, *statuses: SubtaskStatus) -> int:
        return sum(self._count[status] for status in statuses)

    @property
    def epoch(self) -> int:
        """Return the epoch of all attempts. With workers, this is an earlier epoch, in which the job was prepared."""
        return next(iter(self._attempt.values())).epoch

    def attempt(self, subtask: SubtaskId) -> AttemptId:
        """Return the current attempt of an unfinished subtask.

        Raises KeyError for any other subtask.
        """
        return self._attempt[subtask]

    def admits(self, subtask: SubtaskId, attempt: AttemptId) -> bool:
        """Return whether ``attempt`` is the current attempt of the subtask (R22)."""
        return self._attempt.get(subtask) == attempt

    def may_begin(self, subtask: SubtaskId, attempt: AttemptId) -> bool:
        """Return whether ``attempt`` is later than the current attempt, in the same epoch."""
        current = self._attempt.get(subtask)
        return current is not None and current < attempt and current.epoch == attempt.epoch

    def begin(self, subtask: SubtaskId, attempt: AttemptId) -> None:
        """Replace the current attempt by ``attempt``. Reports of the previous attempt no longer count."""
        self._attempt[subtask] = attempt

    def has_ended(self, subtask: SubtaskId) -> bool:
        """Return whether the subtask has reported its end of data to this JobMaster, or was finished before."""
        return self._status[subtask] in _ENDED

    def runs_or_has_ended(self, subtask: SubtaskId) -> bool:
        return self._status[subtask] is SubtaskStatus.RUNNING or self.has_ended(subtask)

    def vertex_has_ended(self, vertex: str) -> bool:
        """Return whether every subtask of the vertex is at its end of data."""
        return self._ended[vertex] == self._size[vertex]

    @property
    def blocked(self) -> bool:
        """Return whether any subtask that must acknowledge checkpoints is not running."""
        return any(self._count[status] for status in _BLOCKING)

    @property
    def blocking(self) -> list[SubtaskId]:
        """Return the subtasks that must acknowledge checkpoints but are not running."""
        return list(self.in_status(*_BLOCKING))

    @property
    def some_active(self) -> bool:
        return any(self._count[status] for status in _ACTIVE)

    @property
    def all_ended(self) -> bool:
        return sum(self._count[status] for status in _ENDED) == len(self)

    @property
    def all_finished(self) -> bool:
        return self._count[SubtaskStatus.FINISHED] == len(self)
