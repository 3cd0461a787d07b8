"""A group of Airflow tasks in one Dag run: its name in the journal, and the status and default id of its job."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from airflow_provider_ckpt.model.job_status import JobStatus

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.model.ids import SubtaskId

MAX_LENGTH = 200
_KEPT = re.compile(r"[A-Za-z0-9_.-]")
_HASH = 32


def default_job_id(dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> str:
    """Return ``<dag>.<task>.<run>`` with ``~XX`` (UTF-8 in hexadecimal) for each character illegal in a folder name.

    Two tasks never share an id. A dot in the name of Dag or task becomes ``~2E``, so the first two dots of an id are
    the separators. A mapped task has ``~m<index>`` at the end. An id longer than 200 characters is cut and ends in
    ``~h`` and half of its SHA-256.
    """
    job_id = ".".join([_quote(dag_id, keep_dots=False), _quote(task_id, keep_dots=False), _quote(run_id)])
    if map_index >= 0:
        job_id += f"~m{map_index}"
    if not re.match(r"[A-Za-z0-9_]", job_id):
        job_id = f"_~.{job_id}"  # "~." is no escape, so no other name looks like this one
    return _shorten(job_id)


def with_generation(job_id: str, generation: int) -> str:
    """Return the id of a cleared task's new job (``on_clear="restart"``): ``<job_id>~g1`` for 1, ``job_id`` for 0."""
    return _shorten(f"{job_id}~g{generation}") if generation else job_id


def _quote(name: str, *, keep_dots: bool = True) -> str:
    return "".join(
        character
        if _KEPT.match(character) and (keep_dots or character != ".")
        else "".join(f"~{byte:02X}" for byte in character.encode())
        for character in name
    )


def _shorten(job_id: str) -> str:
    if len(job_id) <= MAX_LENGTH:
        return job_id
    digest = hashlib.sha256(job_id.encode()).hexdigest()[:_HASH]
    return f"{job_id[: MAX_LENGTH - _HASH - 2]}~h{digest}"


class GroupStatus(Enum):
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
    """A group in one Dag run. Another group, or the same group in another Dag run, has another ``name``."""

    name: str

    @classmethod
    def of(cls, dag_id: str, group_id: str, run_id: str) -> GroupRun:
        return cls(default_job_id(dag_id, group_id, run_id))

    def attempt(self, task: str, try_number: int) -> str:
        """Return the name under which a task of the group claims the job in the journal."""
        return f"{self.name}~t{try_number}.{task}"

    def owns(self, state: JobState) -> bool:
        """Return True if this group, in this Dag run, prepares the job or prepared the job's last deployment."""
        return (state.prepared_by or state.attempt or "").startswith(f"{self.name}~t")

    def status_for(self, state: JobState, subtasks: Iterable[SubtaskId] = ()) -> GroupStatus:
        """Return the job's status for a task that runs ``subtasks``, none for ``plan`` and ``coordinate``."""
        if state.status is JobStatus.FINISHED:
            return GroupStatus.DONE
        if not self.owns(state):
            return GroupStatus.TAKEN
        wanted = set(subtasks)
        are_finished = bool(wanted) and wanted <= state.finished
        if are_finished and not may_run_again(state):
            return GroupStatus.DONE
        if state.deployment:
            return GroupStatus.KEPT if are_finished else GroupStatus.RUNS
        if state.status is JobStatus.STOPPED:
            return GroupStatus.STOPPED
        return GroupStatus.FAILED if state.status is JobStatus.FAILED else GroupStatus.AWAITED


def may_run_again(state: JobState) -> bool:
    """Return True for a job in batch mode, whose next run may run a finished subtask again.

    The next run does so if a result is lost, or without ``batch_recovery``. In streaming mode the checkpoints include
    the result, so a finished subtask never runs again.
    """
    return state.is_batch
