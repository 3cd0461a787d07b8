"""What a worker runs of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_ckpt.jobmaster.loaded_logs import load_logs
from airflow_provider_ckpt.jobmaster.restored_state import first_plan
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.remote.errors import DeploymentOverError
from airflow_provider_ckpt.storage.storage import Storage


def check_owned(logs: Mapping[SubtaskId, SubtaskLog]) -> None:
    """``logs``: of the attempts that were begun here, which come in other threads. Raises LogFencedError when a later
    attempt has opened one of them."""
    for log in list(logs.values()):
        log.check_fenced()


@dataclass(frozen=True)
class WorkerPart:
    """``attempts``: subtask -> the attempt that owns its log: this process begins the next one.
    ``by_split``: vertices whose subtasks read splits. ``plans``: of the first attempts begun here. ``restarts``: the
    JobMaster has what fails begun again here; else whoever supervises this process begins another one."""

    deployment: int
    attempts: Mapping[SubtaskId, AttemptId]
    plans: Mapping[SubtaskId, VertexPlan]
    by_split: frozenset[str] = frozenset()
    restarts: bool = False

    @classmethod
    def of(
        cls, storage: Storage, state: JobState, subtasks: Iterable[SubtaskId], *, restarts: bool = False
    ) -> WorkerPart:
        """``state``: of a job that is prepared for workers. Raises DeploymentOverError if somebody has prepared it
        again since: an attempt that follows one of his would be his (W20)."""
        graph, logs = state.graph(), load_logs(storage, state.job_id, state.graph())
        attempts = {}
        for subtask in subtasks:
            opened, closed = logs[subtask].state.opened, logs[subtask].state.closed
            if opened is None or (opened.attempt.epoch != state.deployment and not closed):
                why = f"the log of {subtask} is that of attempt {None if opened is None else opened.attempt}"
                raise DeploymentOverError(job_id=state.job_id, deployment=state.deployment, why=why)
            attempts[subtask] = opened.attempt
        by_split = frozenset(vertex.uid for vertex in graph.vertices if vertex.splits)
        plans = {one: first_plan(state, one) for one in attempts}
        return cls(state.deployment, attempts, plans, by_split, restarts)
