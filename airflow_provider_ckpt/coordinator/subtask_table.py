"""What the coordinator knows of its subtasks, and what it is told about the epochs before its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from airflow_provider_ckpt.coordinator.enumerator import RestoredSplits
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_settings import Settings


class SubtaskStatus(Enum):
    CREATED = "created"
    """Not deployed yet: in BATCH mode its inputs are not complete, or there is no slot."""
    STARTING = "starting"
    """Deployed; not heard of yet."""
    RUNNING = "running"
    PAUSED = "paused"
    """Stands still for a change of the plan, or was told to (R20)."""
    RESTARTING = "restarting"
    """Its next attempt has not begun: the one before failed, or there was none yet."""
    AT_END_OF_DATA = "at end of data"
    """Waits for its final checkpoint; takes barriers, so it counts as running (R15)."""
    FINISHING = "finishing"
    """Was told to close; may still take a barrier."""
    FINISHED = "finished"


_BLOCKING = (SubtaskStatus.CREATED, SubtaskStatus.STARTING, SubtaskStatus.PAUSED, SubtaskStatus.RESTARTING)
_ACTIVE = (SubtaskStatus.RUNNING, SubtaskStatus.AT_END_OF_DATA, SubtaskStatus.FINISHING)
_ENDED = (SubtaskStatus.AT_END_OF_DATA, SubtaskStatus.FINISHING, SubtaskStatus.FINISHED)


@dataclass(frozen=True)
class RestoredState:
    """What the replay of the journal, and the tails of the logs, say about the epochs before.

    ``ended`` and ``dropped``: vertex -> uids of sources (or input edges). ``unreleased``: the completed
    checkpoints above ``last_released``, ascending; ``sinks_released``: by sink, the last one that it has, where that is
    above it, too.
    ``snapshots``: those of ``last_completed``. ``draining``: an earlier epoch took a drain; it goes on. ``splits``: of
    the sources with splits that are not over. ``settings``: what reconfigurations have changed, of which
    ``reconfigured`` was the last one, decided at ``reconfigured_at``. ``hosts``, ``waiting``: see
    :class:`PlanRecorded`.
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
    """Status and attempt of every subtask. Questions about all of them cost nothing per subtask.

    ``attempts``: by subtask, of those that are not finished; the only ones that may speak for them (R22).
    ``is_awaiting``: they are yet to begin: those that are given are followed by somebody's."""

    def __init__(
        self,
        graph: JobGraph,
        restored: RestoredState,
        attempts: Mapping[SubtaskId, AttemptId],
        *,
        is_awaiting: bool = False,
    ) -> None:
        unfinished = SubtaskStatus.RESTARTING if is_awaiting else SubtaskStatus.CREATED
        self._status: dict[SubtaskId, SubtaskStatus] = {}
        self._attempt = dict(attempts)
        for vertex in graph.vertices:
            for name in vertex.subtasks:
                known = name in restored.finished
                self._status[name] = SubtaskStatus.FINISHED if known else unfinished
        self._count = Counter(self._status.values())
        self._size = {vertex.uid: vertex.parallelism for vertex in graph.vertices}
        self._ended = Counter(name.vertex for name, status in self._status.items() if status in _ENDED)

    def __contains__(self, subtask: SubtaskId) -> bool:
        return subtask in self._status

    def __len__(self) -> int:
        return len(self._status)

    def add(self, subtask: SubtaskId, before: AttemptId) -> None:
        """One that the graph has got; its first attempt, which follows ``before``, is to begin."""
        self._status[subtask], self._attempt[subtask] = SubtaskStatus.RESTARTING, before
        self._count[SubtaskStatus.RESTARTING] += 1
        self._size[subtask.vertex] += 1

    def status(self, subtask: SubtaskId) -> SubtaskStatus:
        return self._status[subtask]

    def set_status(self, subtask: SubtaskId, status: SubtaskStatus) -> None:
        before = self._status[subtask]
        self._count[before] -= 1
        self._status[subtask] = status
        self._count[status] += 1
        self._ended[subtask.vertex] += (status in _ENDED) - (before in _ENDED)

    def statuses(self) -> Mapping[SubtaskId, SubtaskStatus]:
        return dict(self._status)

    def in_status(self, *statuses: SubtaskStatus) -> Iterable[SubtaskId]:
        return [name for name, status in self._status.items() if status in statuses]

    def count(self, *statuses: SubtaskStatus) -> int:
        return sum(self._count[status] for status in statuses)

    @property
    def epoch(self) -> int:
        """Of the attempts: that of the deployment, which is older than the coordinator's if workers run them."""
        return next(iter(self._attempt.values())).epoch

    def attempt(self, subtask: SubtaskId) -> AttemptId:
        """Of a subtask that is not finished. Raises KeyError for any other."""
        return self._attempt[subtask]

    def admits(self, subtask: SubtaskId, attempt: AttemptId) -> bool:
        """Whether ``attempt`` is the current one (R22)."""
        return self._attempt.get(subtask) == attempt

    def may_begin(self, subtask: SubtaskId, attempt: AttemptId) -> bool:
        """Whether ``attempt`` can follow the current one: a later one of the same epoch."""
        current = self._attempt.get(subtask)
        return current is not None and current < attempt and current.epoch == attempt.epoch

    def begin(self, subtask: SubtaskId, attempt: AttemptId) -> None:
        """``attempt`` takes the place of the one before, which never speaks for the subtask again."""
        self._attempt[subtask] = attempt

    def has_ended(self, subtask: SubtaskId) -> bool:
        """It has said under this JobMaster that it is at its end of data, or was finished before."""
        return self._status[subtask] in _ENDED

    def vertex_has_ended(self, vertex: str) -> bool:
        """Every subtask of it is at its end of data."""
        return self._ended[vertex] == self._size[vertex]

    @property
    def blocked(self) -> bool:
        """Some subtask that must acknowledge is not RUNNING."""
        return any(self._count[status] for status in _BLOCKING)

    @property
    def waited_for(self) -> list[SubtaskId]:
        """The subtasks because of which :attr:`blocked` is true."""
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
