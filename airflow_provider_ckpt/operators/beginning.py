"""Before anything is submitted: which job a task runs, whether it is a retry, and where the job stands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ckpt.client.job_facts import is_journaled
from airflow_provider_ckpt.job.causes import cause_first
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.operators.clearing import was_cleared
from airflow_provider_ckpt.operators.job_id import default_job_id, with_generation
from airflow_provider_ckpt.operators.pointer import Pointer
from airflow_provider_ckpt.storage.layout import check_job_id

if TYPE_CHECKING:
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
    from airflow_provider_ckpt.job.options import RunOptions
    from airflow_provider_ckpt.journal.state import JobState


@dataclass(frozen=True)
class Beginning:
    """Found by :func:`find_beginning`. ``before``: what an earlier try left; ``state``: what the journal says."""

    job_id: str
    own_id: str
    generation: int
    cleared: bool
    resumes: bool
    before: Pointer | None
    state: JobState | None

    @property
    def stopped_epoch(self) -> int | None:
        return self.state.epoch if self.state is not None and self.state.status is JobStatus.STOPPED else None

    @property
    def is_retry(self) -> bool:
        """An earlier try of this task claimed the job, and nobody has cleared the task since."""
        if self.before is None or self.state is None or self.cleared:
            return False
        return self.before.epoch is not None or is_own(self.state, self.own_id)

    def adjusted(self, options: RunOptions) -> RunOptions:
        if self.is_retry:
            # The restore was carried out by the try that claimed; what counts is what came after it.
            return replace(options, restore="latest")
        # Who clears a task whose job failed for good says that the cause was mended.
        return replace(options, resume_failed=self.cleared and self.resumes)

    def pointer(self, new: Pointer) -> Pointer:
        """``new``, with what an earlier try reached. Raises AirflowFailException for a job that FAILED."""
        if not self.is_retry or self.state is None:
            return new
        if self.state.status is JobStatus.FAILED:
            cause = cause_first(self.state.cause or "unknown")
            raise AirflowFailException(
                f"Job {self.job_id} failed for good, another try would fail the same way: {cause}. "
                "Correct the cause, then clear the task."
            )
        pointer = new.as_of(self.state)
        return replace(pointer, status=JobStatus.FINISHED) if self.state.status is JobStatus.FINISHED else pointer

    def tell(self, log: Any) -> None:
        if self.before is None and not self.cleared:
            return
        if self.before is None:
            log.info("This Dag run was deleted and made again: its task counts as cleared")
        if self.state is None:
            log.info("Job %s has not started yet: starting it", self.job_id)
            return
        log.info(
            "%s job %s (%s) from checkpoint %s; finished operators: %s",
            "Cleared: resuming" if self.cleared else "Resuming",
            self.job_id,
            self.state.status,
            self.state.last_completed or "none",
            ", ".join(self.state.finished_operators()) or "none",
        )
        if self.state.status is not JobStatus.FINISHED:
            return
        if self.cleared:
            hint = 'on_clear="restart" would start it over'
            log.warning("Job %s has FINISHED: nothing runs again. %s", self.job_id, hint)
        elif self.is_retry:
            log.info("Job %s is FINISHED and released: nothing is left to run", self.job_id)


def find_beginning(
    hook: CheckpointHook,
    ti: Any,
    before: Pointer | None,
    *,
    job_id: str | None,
    on_clear: str,
    retries: int,
    clear_number: int | None,
) -> Beginning:
    """``ti``: the task instance; ``job_id``, ``on_clear``, ``retries``: of the Airflow operator. Reads a few journals.

    Without a pointer a task whose name has run the job counts as cleared: Airflow forgets what it stored together with
    the Dag run, and a new run of the same name would find its job FINISHED, and do nothing. Raises JobDeletedError,
    InvalidJobIdError.
    """
    own_id = own_job_id(ti)
    base_id = check_job_id(own_id if job_id is None else job_id)  # a template that renders to "" names no job
    generation = before.generation if before else 0
    if before is None:
        state = _journaled(hook, base_id)
        cleared = state is not None and is_own(state, own_id)
    else:
        cleared = was_cleared(before, ti, retries, clear_number)
    if cleared and on_clear == "restart":
        generation = _free_generation(hook, base_id, generation + 1)
    found_id = check_job_id(with_generation(base_id, generation))
    state = _journaled(hook, found_id)
    if state is not None:
        state.refuse_deleted()  # no driver needs to be submitted for that
    return Beginning(found_id, own_id, generation, cleared, on_clear == "resume", before, state)


def own_job_id(ti: Any) -> str:
    """The id of the job that a task instance runs unless it is given one; its attempts are named after it anyway."""
    return default_job_id(ti.dag_id, ti.task_id, ti.run_id, -1 if ti.map_index is None else ti.map_index)


def _free_generation(hook: CheckpointHook, base_id: str, generation: int) -> int:
    """The first one under whose id no job ever ran."""
    while _journaled(hook, with_generation(base_id, generation)) is not None:
        generation += 1
    return generation


def _journaled(hook: CheckpointHook, job_id: str) -> JobState | None:
    """None: no driver ever took it."""
    state = hook.client(job_id).look()
    return state if is_journaled(state) else None


def is_own(state: JobState, own_id: str) -> bool:
    """Whether the last driver of the job was started by a task of this name."""
    return (state.attempt or "").startswith(f"{own_id}~t")
