"""Before anything is submitted: which job a task runs, whether it is a retry, and where the job stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ckpt.client.job_facts import is_journaled
from airflow_provider_ckpt.job.causes import cause_first
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.operators.clearing import was_cleared
from airflow_provider_ckpt.operators.errors import JobGoneError, OtherRootError
from airflow_provider_ckpt.operators.job_id import default_job_id, with_generation
from airflow_provider_ckpt.operators.pointer import Pointer
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.storage.opening import canonical_uri
from airflow_provider_ckpt.storage.redaction import redact_uri

if TYPE_CHECKING:
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
    from airflow_provider_ckpt.job.options import RunOptions
    from airflow_provider_ckpt.journal.state import JobState


OTHER_JOB = (
    "job_id is %s now, and an earlier try of this task began job %s: a retry goes on with that. Let job_id be the same "
    "for every try; clear the %s to begin the other job"
)


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
    told: str | None = None
    """The job that the task's arguments name now, if an earlier try began another one."""

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

    @property
    def is_taken(self) -> bool:
        """Somebody else took the job behind the driver of an earlier try, and may be running it."""
        if self.state is None or self.before is None or is_own(self.state, self.own_id):
            return False
        return is_held_since(self.state, self.before)

    def pointer(self, new: Pointer) -> Pointer:
        """``new``, with what an earlier try reached. Raises AirflowFailException for a job that FAILED, and for one
        that somebody else has now: as a driver that is fenced, whatever the one of the earlier try died of."""
        if not self.is_retry or self.state is None:
            return new
        if self.is_taken:
            raise AirflowFailException(
                f"Job {self.job_id} is no longer this task's: {self.state.attempt or 'somebody'} has taken it over "
                f"(epoch {self.state.epoch}). A retry would take it back; clear the task to do that."
            )
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
        if self.told is not None:
            log.warning(OTHER_JOB, self.told, self.job_id, "task")
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

    A retry goes on with the job that an earlier try of it began, whatever its arguments come to now: a template of the
    time of day would begin another job with each try, and its rows would come once more.

    Without a pointer a task whose name has run the job counts as cleared: Airflow forgets what it stored together with
    the Dag run, and a new run of the same name would find its job FINISHED, and do nothing. Raises JobDeletedError,
    InvalidJobIdError, OtherRootError, JobGoneError.
    """
    own_id = own_job_id(ti)

    def owns(state: JobState) -> bool:
        return is_own(state, own_id)

    base_id = check_job_id(own_id if job_id is None else job_id)  # a template that renders to "" names no job
    generation = before.generation if before else 0
    if before is None:
        state = _journaled(hook, base_id)
        cleared = state is not None and is_own(state, own_id)
    else:
        cleared = was_cleared(before, ti, retries, clear_number)
        if not cleared:
            _refuse_other_root(hook, before, owns)
    if cleared and on_clear == "restart":
        generation = _free_generation(hook, base_id, generation + 1)
    found_id = check_job_id(with_generation(base_id, generation))
    told = None
    if before is not None and not cleared and before.job_id != found_id and _is_begun(hook, before, owns):
        found_id, told = before.job_id, found_id
    state = _journaled(hook, found_id)
    if state is not None:
        state.refuse_deleted()  # no driver needs to be submitted for that
    elif before is not None and not cleared and before.epoch is not None:
        raise JobGoneError(job_id=found_id, root=redact_uri(hook.root_uri))
    return Beginning(found_id, own_id, generation, cleared, on_clear == "resume", before, state, told)


def find_continued(hook: CheckpointHook, before: Pointer, job_id: str, owns: Callable[[JobState], bool]) -> str:
    """The job that a task of a group goes on with in another try, whatever its arguments come to now. ``job_id``: what
    they come to; ``owns``: whether the group has a job. Raises OtherRootError, JobGoneError."""
    _refuse_other_root(hook, before, owns)
    found_id = before.job_id if before.job_id != job_id and _is_begun(hook, before, owns) else job_id
    if before.epoch is not None and _journaled(hook, found_id) is None:
        raise JobGoneError(job_id=found_id, root=redact_uri(hook.root_uri))
    return found_id


def is_held_since(state: JobState, before: Pointer) -> bool:
    """Whether somebody has taken the job behind the driver of an earlier try, and may be running it."""
    return state.is_held and state.epoch > (before.epoch or 0) and is_alive(state.worker) is not False


def _is_begun(hook: CheckpointHook, before: Pointer, owns: Callable[[JobState], bool]) -> bool:
    """Whether an earlier try of the task has run the job of its pointer. ``hook``: of the root of then."""
    state = _journaled(hook, before.job_id)
    return state is not None and (before.epoch is not None or owns(state))


def _refuse_other_root(hook: CheckpointHook, before: Pointer, owns: Callable[[JobState], bool]) -> None:
    """A retry under another root would find no job, and begin it anew. Raises OtherRootError."""
    if canonical_uri(before.root) == canonical_uri(hook.root_uri):
        return
    if _is_begun(type(hook)(hook.ckpt_conn_id, root=before.root), before, owns):
        raise OtherRootError(job_id=before.job_id, before=redact_uri(before.root), now=redact_uri(hook.root_uri))


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
