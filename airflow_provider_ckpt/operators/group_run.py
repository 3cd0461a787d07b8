"""Whose deployment a job runs in, and what that leaves to do for a task of a group. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.operators.job_id import default_job_id

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.model.subtask_id import SubtaskId


class Standing(Enum):
    """Where the job of a group stands, for one of its tasks."""

    RUNS = "the deployment of this Dag run is prepared, and lives"
    KEPT = "its subtasks are at their ends, and may have to run again"
    AWAITED = "it is to be prepared again, for this Dag run"
    DONE = "nothing is left to do"
    STOPPED = "it was stopped"
    FAILED = "it failed for good"
    TAKEN = "somebody else has it"


@dataclass(frozen=True)
class GroupRun:
    """A group in one Dag run. ``name``: no other has it, whatever job they run."""

    name: str

    @classmethod
    def of(cls, dag_id: str, group_id: str, run_id: str) -> GroupRun:
        return cls(default_job_id(dag_id, group_id, run_id))

    def attempt(self, task: str, try_number: int) -> str:
        """How a claim of the job by one of its tasks is named in the journal."""
        return f"{self.name}~t{try_number}.{task}"

    def owns(self, state: JobState) -> bool:
        """Whether the deployment of now was prepared by this group in this Dag run, or the one before, which nobody has
        followed; or is being prepared by it. Whoever is the JobMaster of it may be called anything."""
        return (state.prepared_by or state.attempt or "").startswith(f"{self.name}~t")

    def standing(self, state: JobState, subtasks: Iterable[SubtaskId] = ()) -> Standing:
        """``subtasks``: those that the task runs; none for one that runs none."""
        if state.status is JobStatus.FINISHED:
            return Standing.DONE
        if not self.owns(state):
            return Standing.TAKEN
        asked = set(subtasks)
        are_finished = bool(asked) and asked <= state.finished
        if are_finished and not may_run_again(state):
            return Standing.DONE
        if state.deployment:
            return Standing.KEPT if are_finished else Standing.RUNS
        if state.status is JobStatus.STOPPED:
            return Standing.STOPPED
        return Standing.FAILED if state.status is JobStatus.FAILED else Standing.AWAITED


def may_run_again(state: JobState) -> bool:
    """Whether a subtask that has finished may be one that the next run needs again: in batch mode, where a result that
    is lost is produced again, and where a job without ``batch_recovery`` begins anew. In streaming mode neither can be:
    checkpoints cover what was made of it."""
    definition = None if state.plan is None else state.plan.definition
    return definition is not None and definition.mode == "batch"


def subtasks_of(state: JobState, name: str) -> tuple[SubtaskId, ...]:
    """See :meth:`JobState.named`."""
    return state.named(name)
