"""The part of a job that one worker runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_ckpt.jobmaster.recovery.restored_state import first_plan
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import split_widths
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.remote.errors import DeploymentOverError
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog


def check_owned(logs: Mapping[SubtaskId, SubtaskLog]) -> None:
    """Raise LogFencedError if a later attempt has opened the log of an attempt that began here.

    ``logs`` maps subtask → log. Other threads may add to it.
    """
    for log in list(logs.values()):
        log.check_fenced()


@dataclass(frozen=True)
class WorkerPart:
    """The subtasks of one worker, and how their first attempts begin.

    Args:
        deployment: The epoch in which the job was prepared for workers.
        attempts: Subtask → the attempt that owns its log. This process begins the next attempt.
        plans: Subtask → the plan of its first attempt in this worker.
        restarts: True if the JobMaster restarts failed subtasks in this worker, False if the worker's supervisor starts
            another process.
        feeds: Vertex → the sources with splits whose result partitions it reads.
    """

    deployment: int
    attempts: Mapping[SubtaskId, AttemptId]
    plans: Mapping[SubtaskId, VertexPlan]
    by_split: frozenset[str] = frozenset()
    """Vertices whose subtasks read splits."""
    restarts: bool = False
    feeds: Mapping[str, frozenset[str]] = field(default_factory=dict)
    finished: frozenset[SubtaskId] = frozenset()
    """Subtasks that have finished according to the journal. Their logs are not opened again."""

    @classmethod
    def of(
        cls, storage: Storage, state: JobState, subtasks: Iterable[SubtaskId], *, restarts: bool = False
    ) -> WorkerPart:
        """Return the part with the given subtasks of a job that is prepared for workers.

        Raises DeploymentOverError if the job was prepared again, because the attempts would belong to the new
        deployment (W20).
        """
        graph = state.graph()
        attempts = {subtask: _last_attempt(storage, state, subtask) for subtask in subtasks}
        widths = split_widths(graph)  # the graph that this process has planned may have an older parallelism
        plans = {attempt: replace(first_plan(state, attempt), parallelism=widths) for attempt in attempts}
        feeds = {
            vertex.uid: frozenset(edge.producer for edge in graph.inputs(vertex.uid) if edge.producer in widths)
            for vertex in graph.vertices
        }
        finished = frozenset(attempt for attempt in attempts if attempt in state.finished)
        return cls(state.deployment, attempts, plans, frozenset(widths), restarts, feeds, finished)

    def with_added_subtasks(self, storage: Storage, state: JobState) -> WorkerPart:
        """Return the part including the subtasks that a rescale has added. Raises the errors of :meth:`of`."""
        added = [subtask for subtask in state.with_colocated(self.attempts) if subtask not in self.attempts]
        added_part = WorkerPart.of(storage, state, added)
        return replace(
            self, attempts={**self.attempts, **added_part.attempts}, plans={**self.plans, **added_part.plans}
        )


def _last_attempt(storage: Storage, state: JobState, subtask: SubtaskId) -> AttemptId:
    log = SubtaskLog(storage, subtask_log_path(state.job_id, subtask.vertex, subtask.number))
    log.load()
    opened, deployment = log.state.opened, state.deployment
    if subtask in state.hosts and (opened is None or opened.attempt.epoch < deployment):
        return AttemptId.vacant(deployment)  # a rescale has added it since the deployment was prepared (R21)
    if opened is not None and (opened.attempt.epoch == deployment or log.state.closed):
        return opened.attempt
    why = f"the log of {subtask} is that of attempt {None if opened is None else opened.attempt}"
    raise DeploymentOverError(job_id=state.job_id, deployment=deployment, why=why)
