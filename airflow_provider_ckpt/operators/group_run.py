"""The deployment in which a job of a group runs, and its meaning for each of the group's tasks. Pure."""

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
    """State of a group's job from the point of view of a task of the group."""

    RUNS = "the deployment of this Dag run is prepared, and lives"
    KEPT = "its subtasks are at their ends, and may have to run again"
    AWAITED = "it must be prepared again, for this Dag run"
    DONE = "nothing is left to do"
    STOPPED = "it was stopped"
    FAILED = "it failed for good"
    TAKEN = "another Dag run or driver has it"


@dataclass(frozen=True)
class GroupRun:
    """A group in one Dag run. ``name`` is unique, whatever job the group runs."""

    name: str

    @classmethod
    def of(cls, dag_id: str, group_id: str, run_id: str) -> GroupRun:
        return cls(default_job_id(dag_id, group_id, run_id))

    def attempt(self, task: str, try_number: int) -> str:
        """Return the name under which a task of the group claims the job in the journal."""
        return f"{self.name}~t{try_number}.{task}"

    def owns(self, state: JobState) -> bool:
        """Return whether this group prepared the current deployment in this Dag run, or prepares it now.

        Also true if the last deployment was this group's and no other has followed. The name of the JobMaster does not
        matter.
        """
        return (state.prepared_by or state.attempt or "").startswith(f"{self.name}~t")

    def standing(self, state: JobState, subtasks: Iterable[SubtaskId] = ()) -> Standing:
        """Return where the job stands for a task that runs ``subtasks``. A task that runs none gives none."""
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
    """Return whether the next run may need a subtask again that has finished.

    It may in batch mode, for two reasons. A lost result is produced again, and a job without ``batch_recovery``
    restarts from scratch. In streaming mode it may not, because checkpoints cover the effects of the result.
    """
    definition = None if state.plan is None else state.plan.definition
    return definition is not None and definition.mode == "batch"


def subtasks_of(state: JobState, name: str) -> tuple[SubtaskId, ...]:
    """Return the subtasks that a task runs, see :meth:`JobState.named`."""
    return state.named(name)
