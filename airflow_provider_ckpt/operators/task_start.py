"""The decisions before a submission: which job a task runs, whether this is a retry, and the job's progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ckpt.client.job_facts import is_journaled
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.error_cause import cause_first
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.operators.clearing import was_cleared
from airflow_provider_ckpt.operators.errors import JobGoneError
from airflow_provider_ckpt.operators.group_run import default_job_id, with_generation
from airflow_provider_ckpt.operators.pointer import Pointer
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.storage.opening import canonical_uri
from airflow_provider_ckpt.storage.redaction import redact_uri

if TYPE_CHECKING:
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
    from airflow_provider_ckpt.job.options.run_options import RunOptions
    from airflow_provider_ckpt.journal.state import JobState


OTHER_JOB = (
    "job_id is %s now, but an earlier try of this task began job %s, and this retry resumes that one. Give the same "
    "job_id for every try, or clear the %s to begin the other job"
)


@dataclass(frozen=True)
class TaskStart:
    """The job of a task, and how this try starts the job. The result of :func:`find_task_start`.

    Args:
        own_id: Default job id of the task. The names of the task's attempts begin with it.
        generation: Number in the job id's suffix ``~g1``, ``~g2``, … (``on_clear="restart"``); 0 without a suffix.
        is_cleared: True if a user cleared the task.
        resumes: True for ``on_clear="resume"``.
        before: Pointer that an earlier try wrote. None if there is none.
        state: The job in its journal. None if no driver ever claimed the job.
        requested_job_id: Id that the task's arguments name now, if an earlier try began another job. Otherwise None.
    """

    job_id: str
    own_id: str
    generation: int
    is_cleared: bool
    resumes: bool
    before: Pointer | None
    state: JobState | None
    requested_job_id: str | None = None

    @property
    def stopped_epoch(self) -> int | None:
        return self.state.epoch if self.state is not None and self.state.status is JobStatus.STOPPED else None

    @property
    def is_retry(self) -> bool:
        """True if an earlier try of this task claimed the job and no user has cleared the task since."""
        if self.before is None or self.state is None or self.is_cleared:
            return False
        return self.before.epoch is not None or is_of_task(self.state, self.own_id)

    def adjusted(self, options: RunOptions) -> RunOptions:
        if self.is_retry:
            # The try that claimed the job has carried out the restore. A retry resumes from a later checkpoint.
            return replace(options, restore="latest")
        # A user who clears the task of a job that failed for good declares that the cause is corrected.
        return replace(options, resume_failed=self.is_cleared and self.resumes)

    @property
    def is_taken(self) -> bool:
        """True if another driver has taken over the job from an earlier try's driver, and may still run the job."""
        if self.state is None or self.before is None or is_of_task(self.state, self.own_id):
            return False
        return is_held_since(self.state, self.before)

    def pointer(self, new: Pointer) -> Pointer:
        """Return ``new``. For a retry, ``new`` gets the progress that the earlier tries reached.

        Raises AirflowFailException if the job FAILED, or if another driver has taken the job over.
        """
        if not self.is_retry or self.state is None:
            return new
        if self.is_taken:
            raise AirflowFailException(
                f"Job {self.job_id} is no longer this task's: {self.state.attempt or 'another driver'} has taken it "
                f"over (epoch {self.state.epoch}). A retry would take it back; clear the task to do that."
            )
        if self.state.status is JobStatus.FAILED:
            raise failed_job_error(self.state, "task")
        pointer = new.as_of(self.state)
        return replace(pointer, status=JobStatus.FINISHED) if self.state.status is JobStatus.FINISHED else pointer

    def report(self, log: Any) -> None:
        if self.before is None and not self.is_cleared:
            return
        if self.requested_job_id is not None:
            log.warning(OTHER_JOB, self.requested_job_id, self.job_id, "task")
        if self.before is None:
            log.info("This Dag run was deleted and made again: its task counts as cleared")
        if self.state is None:
            log.info("Job %s has not started yet: starting it", self.job_id)
            return
        log.info(
            "%s job %s (%s) from checkpoint %s; finished operators: %s",
            "Cleared: resuming" if self.is_cleared else "Resuming",
            self.job_id,
            self.state.status,
            self.state.last_completed or "none",
            ", ".join(self.state.finished_operators()) or "none",
        )
        if self.state.status is not JobStatus.FINISHED:
            return
        if self.is_cleared:
            hint = 'on_clear="restart" would start it over'
            log.warning("Job %s has FINISHED: nothing runs again. %s", self.job_id, hint)
        elif self.is_retry:
            log.info("Job %s is FINISHED and released: nothing is left to run", self.job_id)


def find_task_start(
    hook: CheckpointHook,
    ti: Any,
    before: Pointer | None,
    *,
    job_id: str | None,
    on_clear: str,
    retries: int,
    clear_number: int | None,
) -> TaskStart:
    """Return the job that a task runs, and the job's state. The function reads a few journals.

    A retry resumes the job that an earlier try began, even if the arguments name another job now. Otherwise a
    job id that contains the current time would begin another job in each try, and write the same rows again.

    A task without a pointer counts as cleared if a task of its name has run the job, because Airflow deletes the
    pointer with the Dag run. Otherwise a new Dag run of the same name would find its job FINISHED and do nothing.

    Args:
        before: Pointer that an earlier try wrote.
        job_id: Argument of the Airflow operator. None selects the default job id.
        clear_number: Number of clears of any task in the Dag run.

    Raises:
        JobDeletedError: the job was deleted.
        InvalidJobIdError: the id cannot name a job.
        InvalidInputError: an earlier try ran the job under another root.
        JobGoneError: an earlier try began the job, and its journal is gone.
    """
    own_id = own_job_id(ti)

    def owns(state: JobState) -> bool:
        return is_of_task(state, own_id)

    base_id = check_job_id(own_id if job_id is None else job_id)  # refuses a template that renders to ""
    generation = before.generation if before else 0
    if before is None:
        state = _journaled(hook, base_id)
        is_cleared = state is not None and is_of_task(state, own_id)
    else:
        is_cleared = was_cleared(before, ti, retries, clear_number)
        if not is_cleared:
            _refuse_other_root(hook, before, owns)
    if is_cleared and on_clear == "restart":
        generation = _free_generation(hook, base_id, generation + 1)
    chosen_id = check_job_id(with_generation(base_id, generation))
    named_id = None
    if before is not None and not is_cleared and before.job_id != chosen_id and _is_begun(hook, before, owns):
        chosen_id, named_id = before.job_id, chosen_id
    state = _journaled(hook, chosen_id)
    if state is not None:
        state.refuse_deleted()  # here, because the driver would refuse it only after Spark has started
    elif before is not None and not is_cleared and before.epoch is not None:
        raise JobGoneError(job_id=chosen_id, root=redact_uri(hook.root_uri))
    return TaskStart(chosen_id, own_id, generation, is_cleared, on_clear == "resume", before, state, named_id)


def find_resumed_job(hook: CheckpointHook, before: Pointer, job_id: str, owns: Callable[[JobState], bool]) -> str:
    """Return the job that a task of a group resumes in another try.

    Args:
        before: Pointer that the earlier try wrote.
        job_id: Id that the arguments name now. If the earlier try began another job, that job is resumed instead.
        owns: Returns True if the group has the job with the given state.

    Raises:
        InvalidInputError: the earlier try ran the job under another root.
        JobGoneError: the earlier try began the job, and its journal is gone.
    """
    _refuse_other_root(hook, before, owns)
    chosen_id = before.job_id if before.job_id != job_id and _is_begun(hook, before, owns) else job_id
    if before.epoch is not None and _journaled(hook, chosen_id) is None:
        raise JobGoneError(job_id=chosen_id, root=redact_uri(hook.root_uri))
    return chosen_id


def failed_job_error(state: JobState, unit: Literal["task", "group"]) -> AirflowFailException:
    """Return the error for a job that FAILED. The user must clear ``unit`` to resume the job."""
    return AirflowFailException(
        f"Job {state.job_id} failed for good, another try would fail the same way: "
        f"{cause_first(state.cause or 'unknown')}. Correct the cause, then clear the {unit}."
    )


def is_held_since(state: JobState, before: Pointer) -> bool:
    """Return True if another driver has taken over the job from an earlier try's driver, and may be alive."""
    return state.is_held and state.epoch > (before.epoch or 0) and is_alive(state.worker) is not False


def _is_begun(hook: CheckpointHook, before: Pointer, owns: Callable[[JobState], bool]) -> bool:
    """Return True if an earlier try has run the job of the task's pointer. ``hook`` must have that try's root."""
    state = _journaled(hook, before.job_id)
    return state is not None and (before.epoch is not None or owns(state))


def _refuse_other_root(hook: CheckpointHook, before: Pointer, owns: Callable[[JobState], bool]) -> None:
    """Refuse a retry under another root than the earlier try's, because it would restart the job from scratch."""
    if canonical_uri(before.root) == canonical_uri(hook.root_uri):
        return
    if _is_begun(type(hook)(hook.ckpt_conn_id, root=before.root), before, owns):
        raise InvalidInputError(
            "an earlier try of this task ran job {job_id} under the root {before}, and the root is {now} now: a retry "
            "would restart the job from scratch. Give the task the earlier root, or clear it to run the job under the "
            "new one.",
            job_id=before.job_id,
            before=redact_uri(before.root),
            now=redact_uri(hook.root_uri),
        )


def own_job_id(ti: Any) -> str:
    """Return the default job id of a task instance. It begins the names of all attempts, even for other jobs."""
    return default_job_id(ti.dag_id, ti.task_id, ti.run_id, -1 if ti.map_index is None else ti.map_index)


def _free_generation(hook: CheckpointHook, base_id: str, generation: int) -> int:
    """Return the first number, from ``generation`` upwards, for which no job ever had the suffix ``~g<number>``."""
    while _journaled(hook, with_generation(base_id, generation)) is not None:
        generation += 1
    return generation


def _journaled(hook: CheckpointHook, job_id: str) -> JobState | None:
    """Return the job's state, or None if no driver ever claimed the job."""
    state = hook.client(job_id).read_state()
    return state if is_journaled(state) else None


def is_of_task(state: JobState, own_id: str) -> bool:
    """Return True if a task with this default job id started the last driver of the job."""
    return (state.attempt or "").startswith(f"{own_id}~t")
