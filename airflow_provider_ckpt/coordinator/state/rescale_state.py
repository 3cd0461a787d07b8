"""The rescaling part of a reconfiguration, and the subtasks that still need the new plan (R21).

:class:`~..rescaler.Rescaler` has the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from airflow_provider_ckpt.coordinator.state.pauses import Pause, PlanChanges
from airflow_provider_ckpt.coordinator.state.running_graph import RunningGraph
from airflow_provider_ckpt.coordinator.state.split_sources import SplitSources
from airflow_provider_ckpt.coordinator.state.subtask_table import SubtaskStatus, SubtaskTable
from airflow_provider_ckpt.journal.events import Event, GraphChange
from airflow_provider_ckpt.model.graph import split_widths
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.pause_reason import Rescale
from airflow_provider_ckpt.model.vertex_plan import VertexPlan

_HAS_OLD_PLAN = (SubtaskStatus.STARTING, SubtaskStatus.RUNNING, SubtaskStatus.PAUSED)
_HAS_REPORTED = (
    SubtaskStatus.RUNNING,
    SubtaskStatus.AT_END_OF_DATA,
    SubtaskStatus.FINISHING,
    SubtaskStatus.FINISHED,
)


@dataclass
class RescaleInProgress:
    """A rescaling that is in the journal, but has not reached all subtasks.

    Attributes:
        decided: the change as it is in the journal.
        new: subtasks that are new in the graph of ``decided``.
        unaware: consumer → its source, for running consumers that must still pause to get the new subtasks as inputs.
        has_begun: True if the new subtasks were commanded to begin.
    """

    decided: GraphChange
    new: tuple[SubtaskId, ...]
    unaware: dict[SubtaskId, str] = field(default_factory=dict)
    has_begun: bool = False


class RescaleState(PlanChanges[Rescale]):
    """The rescalings of the job, one at a time.

    A subtask that is deployed or resumed after the decision gets the new plan. The running consumers of a source
    with new subtasks pause one after the other to get the new plan.

    Args:
        hosts: subtask that an earlier rescale added → subtask in whose process it runs (:class:`PlanRecorded`).
        waiting: added subtasks in ``hosts`` that have not begun.
        has_workers: True if workers run the job. A worker may have an older graph, so each plan then names the number
            of subtasks of every source.
        is_batch: True in batch mode, where the consumers of a source are deployed after the source's end.
    """

    def __init__(
        self,
        graph: RunningGraph,
        subtasks: SubtaskTable,
        splits: SplitSources,
        hosts: Mapping[SubtaskId, SubtaskId] = MappingProxyType({}),
        waiting: tuple[SubtaskId, ...] = (),
        *,
        has_workers: bool = False,
        is_batch: bool = False,
    ) -> None:
        self._graph, self._subtasks, self._splits, self._hosts = graph, subtasks, splits, dict(hosts)
        self.has_workers, self.waiting = has_workers, waiting
        self._parallelism: Mapping[str, int] = split_widths(graph.now) if has_workers else {}
        self.current: RescaleInProgress | None = None
        added = {host.vertex for host in self._hosts} if has_workers and not is_batch else set()
        self._unsettled = {uid: {*self._readers_of(uid)} for uid in added}
        """Source that was rescaled under workers → its consumers that have not reported to this JobMaster."""

    def decide(self, reader_counts: Mapping[str, int], aware: Collection[SubtaskId]) -> GraphChange:
        """Decide a rescaling, and return it. The caller must journal it before any subtask is notified.

        Args:
            reader_counts: source → its new number of readers, for which :meth:`Rescaler.refusal_of` returned None.
            aware: paused subtasks, which will resume with the new plan.
        """
        readers = {uid: self.readers(uid) for uid in reader_counts}
        old_parallelism = {uid: self._graph.now.vertex(uid).parallelism for uid in reader_counts}
        added = {uid: number - len(readers[uid]) for uid, number in reader_counts.items()}
        wider = {uid: old_parallelism[uid] + count for uid, count in added.items() if count > 0}
        graph = self._graph.now.rescaled(wider)
        new = tuple(subtask for uid in wider for subtask in graph.vertex(uid).subtasks[old_parallelism[uid] :])
        unaware = {name: uid for uid in wider for name in self._consumers(uid) if name not in aware}
        self._parallelism = {**self._parallelism, **wider}
        change = GraphChange(graph, reader_counts, self.place(new, readers) if self.has_workers else {})
        self.current = RescaleInProgress(change, new, unaware)
        return change

    def readers(self, uid: str) -> list[SubtaskId]:
        """Return the subtasks of the source to which splits can still be assigned."""
        names = self._graph.now.vertex(uid).subtasks
        return [name for name in names if not self._subtasks.has_ended(name) and self._splits.may_read(name)]

    def reaches_all_consumers(self) -> bool:
        """Return whether every running consumer of the source has the new subtasks among its inputs."""
        change = self.current
        return change is not None and not any(not self._subtasks.has_ended(consumer) for consumer in change.unaware)

    def end(self) -> None:
        self.current = None

    def place(
        self, new: Collection[SubtaskId], readers: Mapping[str, Collection[SubtaskId]]
    ) -> dict[SubtaskId, SubtaskId]:
        """Choose for each new subtask the host subtask in whose process it runs.

        The host still reads the source (``readers``), so its worker is alive. The candidate with the fewest guests is
        chosen. A guest is never a host, because workers are started for hosts only.
        """
        placed: dict[SubtaskId, SubtaskId] = {}
        for subtask in new:
            roots = [self._hosts.get(reader, reader) for reader in readers[subtask.vertex]]
            load = Counter(roots)
            host = min(
                dict.fromkeys(roots), key=lambda candidate: load[candidate] + list(placed.values()).count(candidate)
            )
            placed[subtask] = host
        self._hosts.update(placed)
        return placed

    def unsettled(self) -> list[str]:
        return list(self._unsettled)

    def is_settled(self, uid: str) -> bool:
        return uid not in self._unsettled

    def settle(self) -> list[str]:
        """Return sources whose consumers have all reported that they run or have ended. Later calls omit these."""
        if not self._unsettled:
            return []
        for names in self._unsettled.values():
            runs = [name for name in names if self._subtasks.status(name) in _HAS_REPORTED]
            names.difference_update(runs)
        settled = [uid for uid, names in self._unsettled.items() if not names]
        for uid in settled:
            del self._unsettled[uid]
        return settled

    def _readers_of(self, uid: str) -> list[SubtaskId]:
        graph = self._graph.now
        return [name for edge in graph.outputs(uid) for name in graph.vertex(edge.consumer).subtasks]

    def _consumers(self, uid: str) -> list[SubtaskId]:
        return [name for name in self._readers_of(uid) if self._subtasks.status(name) in _HAS_OLD_PLAN]

    # -- reasons to pause

    def wanted(self) -> list[tuple[Pause[Rescale]]]:
        change = self.current
        return [] if change is None else [(Pause(subtask, Rescale(uid)),) for subtask, uid in change.unaware.items()]

    def note_requested(self, pause: Pause[Rescale]) -> None:
        if self.current is not None:
            self.current.unaware.pop(pause.subtask, None)

    def attempt_began(self, subtask: SubtaskId, unreached: Pause[Rescale] | None) -> None:
        """Note that the subtask's next attempt has the current plan, so that the subtask need not pause."""
        if self.current is not None:
            self.current.unaware.pop(subtask, None)

    def change(self, pause: Pause[Rescale], batch_id: int, now: float) -> Event | None:
        """Return None, because the journal had the change before the pause was wanted."""
        return None

    def amended(self, plan: VertexPlan, subtask: SubtaskId) -> VertexPlan:
        return replace(plan, parallelism=self._parallelism) if self._parallelism else plan
