"""The state of a coordinator, and its construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.checkpoints.checkpoint_cycle import CheckpointCycle
from airflow_provider_ckpt.coordinator.checkpoints.final_checkpoints import FinalCheckpoints
from airflow_provider_ckpt.coordinator.protocol.checkpoint_options import CheckpointOptions
from airflow_provider_ckpt.coordinator.protocol.commands import Command
from airflow_provider_ckpt.coordinator.protocol.effects import Append, Effect
from airflow_provider_ckpt.coordinator.state.ended_sources import EndedSources
from airflow_provider_ckpt.coordinator.state.pauses import Pauses
from airflow_provider_ckpt.coordinator.state.reconfiguration_state import ReconfigurationState
from airflow_provider_ckpt.coordinator.state.release_state import ReleaseState
from airflow_provider_ckpt.coordinator.state.replacement_state import ReplacementState
from airflow_provider_ckpt.coordinator.state.request_state import Requests
from airflow_provider_ckpt.coordinator.state.rescale_state import RescaleState
from airflow_provider_ckpt.coordinator.state.running_graph import RunningGraph
from airflow_provider_ckpt.coordinator.state.scheduler import Scheduler
from airflow_provider_ckpt.coordinator.state.split_sources import SplitSources
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState, SubtaskTable
from airflow_provider_ckpt.journal.events import RequestAnswered
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId, TaskId
from airflow_provider_ckpt.model.request_outcome import RequestOutcome


@dataclass(frozen=True)
class CoordinatorState:
    """The state of one coordinator: one object for each topic. Effects are appended to ``out`` in order."""

    options: CheckpointOptions
    epoch: int
    out: list[Effect]
    graph: RunningGraph
    subtasks: SubtaskTable
    scheduler: Scheduler
    sources: EndedSources
    splits: SplitSources
    rescaling: RescaleState
    reconfiguration: ReconfigurationState
    replacements: ReplacementState
    pauses: Pauses
    requests: Requests
    finals: FinalCheckpoints
    releases: ReleaseState
    cycle: CheckpointCycle

    def task_id(self, subtask: SubtaskId) -> TaskId:
        """Return the id of the subtask's current attempt, to which a command is addressed."""
        return TaskId(self.epoch, subtask, self.subtasks.attempt(subtask))

    @property
    def is_changing(self) -> bool:
        """Return whether a reconfiguration or an upgrade is in progress."""
        return self.reconfiguration.current is not None or self.requests.upgrade is not None

    def send(self, command: Command) -> None:
        self.out.append(command)

    def answer(self, request: str | None, kind: str, outcome: RequestOutcome, now: float) -> RequestOutcome:
        """Journal the answer to a request, and return ``outcome``. A request without a name gets no answer."""
        if request:
            self.out.append(Append(RequestAnswered(request, kind, outcome, now)))
        return outcome


def make_state(
    graph: JobGraph,
    options: CheckpointOptions,
    epoch: int,
    restored: RestoredState,
    attempts: Mapping[SubtaskId, AttemptId],
    slots: int,
    *,
    has_workers: bool = False,
) -> CoordinatorState:
    out: list[Effect] = []
    subtasks = SubtaskTable(graph, restored, attempts, has_workers=has_workers)
    running = RunningGraph(graph)
    sources = EndedSources(running, restored.ended, restored.dropped)
    splits = SplitSources(restored.splits)
    rescaling = RescaleState(
        running, subtasks, splits, restored.hosts, restored.waiting, has_workers=has_workers, is_batch=options.is_batch
    )
    reconfiguration = ReconfigurationState(subtasks, rescaling, restored.settings, restored.reconfigured, epoch)
    replacements = ReplacementState(reconfiguration)
    pauses = Pauses([sources, rescaling, reconfiguration, replacements])
    releases = ReleaseState([uid for vertex in graph.vertices for uid in vertex.sinks], restored, options.sink_timeout)
    return CoordinatorState(
        options=options,
        epoch=epoch,
        out=out,
        graph=running,
        subtasks=subtasks,
        scheduler=Scheduler(running, subtasks, batch=options.is_batch, slots=slots),
        sources=sources,
        splits=splits,
        rescaling=rescaling,
        reconfiguration=reconfiguration,
        replacements=replacements,
        pauses=pauses,
        requests=Requests(restored.draining, options.tolerable_failed),
        finals=FinalCheckpoints(running, restored),
        releases=releases,
        cycle=CheckpointCycle(running, options, epoch, restored, subtasks, sources, splits, pauses, releases, out),
    )
