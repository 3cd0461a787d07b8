"""The state of a coordinator, and its construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.checkpoint_cycle import CheckpointCycle
from airflow_provider_ckpt.coordinator.commands import Command
from airflow_provider_ckpt.coordinator.effects import Effect
from airflow_provider_ckpt.coordinator.ended_sources import EndedSources
from airflow_provider_ckpt.coordinator.final_checkpoints import FinalCheckpoints
from airflow_provider_ckpt.coordinator.options import CheckpointOptions
from airflow_provider_ckpt.coordinator.pauses import Pauses
from airflow_provider_ckpt.coordinator.reconfiguring import Reconfiguring
from airflow_provider_ckpt.coordinator.releases import Releases
from airflow_provider_ckpt.coordinator.renewing import Renewing
from airflow_provider_ckpt.coordinator.requests import Requests
from airflow_provider_ckpt.coordinator.rescaling import Rescaling
from airflow_provider_ckpt.coordinator.restart_strategy import RestartStrategy
from airflow_provider_ckpt.coordinator.running_graph import RunningGraph
from airflow_provider_ckpt.coordinator.scheduler import Scheduler
from airflow_provider_ckpt.coordinator.split_sources import SplitSources
from airflow_provider_ckpt.coordinator.subtask_table import RestoredState, SubtaskTable
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.task_id import TaskId


@dataclass(frozen=True)
class Parts:
    """The state of one coordinator: one object for each topic, shared by the rules that span several topics.

    Effects are appended to ``out``, in order.
    """

    options: CheckpointOptions
    epoch: int
    out: list[Effect]
    graph: RunningGraph
    subtasks: SubtaskTable
    scheduler: Scheduler
    sources: EndedSources
    splits: SplitSources
    rescaling: Rescaling
    reconfiguring: Reconfiguring
    renewing: Renewing
    pauses: Pauses
    requests: Requests
    finals: FinalCheckpoints
    releases: Releases
    cycle: CheckpointCycle
    restarts: RestartStrategy

    def task_id(self, subtask: SubtaskId) -> TaskId:
        """Return the id of the subtask's current attempt, to which a command is addressed."""
        return TaskId(self.epoch, subtask, self.subtasks.attempt(subtask))

    def send(self, command: Command) -> None:
        self.out.append(command)


def make_parts(
    graph: JobGraph,
    options: CheckpointOptions,
    epoch: int,
    restored: RestoredState,
    attempts: Mapping[SubtaskId, AttemptId],
    slots: int,
    *,
    is_awaiting: bool = False,
) -> Parts:
    out: list[Effect] = []
    subtasks = SubtaskTable(graph, restored, attempts, is_awaiting=is_awaiting)
    running = RunningGraph(graph)
    sources = EndedSources(running, restored.ended, restored.dropped)
    rescaling = Rescaling(
        running, subtasks, restored.hosts, restored.waiting, has_workers=is_awaiting, is_batch=options.is_batch
    )
    reconfiguring = Reconfiguring(subtasks, restored.settings, restored.reconfigured, epoch)
    renewing = Renewing(reconfiguring, rescaling)
    pauses = Pauses([sources, rescaling, reconfiguring, renewing])
    splits = SplitSources(restored.splits)
    releases = Releases([uid for vertex in graph.vertices for uid in vertex.sinks], restored, options.sink_timeout)
    return Parts(
        options=options,
        epoch=epoch,
        out=out,
        graph=running,
        subtasks=subtasks,
        scheduler=Scheduler(running, subtasks, batch=options.is_batch, slots=slots),
        sources=sources,
        splits=splits,
        rescaling=rescaling,
        reconfiguring=reconfiguring,
        renewing=renewing,
        pauses=pauses,
        requests=Requests(restored.draining, options.tolerable_failed),
        finals=FinalCheckpoints(running, restored),
        releases=releases,
        cycle=CheckpointCycle(running, options, epoch, restored, subtasks, sources, splits, pauses, releases, out),
        restarts=RestartStrategy(options.restart_attempts, options.restart_delay),
    )
