"""One execution of the Airflow operator: the driver's status lines, a kill, and the task's result or error."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_ckpt.client.job_facts import is_journaled
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook
from airflow_provider_ckpt.job.error_cause import cause_first
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.operators.links import LinkPusher
from airflow_provider_ckpt.operators.pointer import Pointer, PointerWriter
from airflow_provider_ckpt.status.exit_code import is_for_good
from airflow_provider_ckpt.status.status_line import StatusLine

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState


_POLL = 0.2
"""Seconds between two polls of the journal while a task is killed."""


@dataclass(frozen=True)
class TaskRun:
    """State of one execution of the Airflow operator, for methods that get no context, such as ``_get_hook``."""

    hook: CheckpointHook
    writer: PointerWriter
    options: RunOptions
    stopped_epoch: int | None = None
    """Epoch of a job that was STOPPED before this try submitted a driver, else None.

    This try did not cause that stop.
    """
    links: LinkPusher | None = None

    def record(self, line: StatusLine) -> None:
        """Record a status line of the driver. The thread that reads the driver's output calls this method."""
        self.writer.record(line)
        if self.links is not None:
            self.links.update(self.pointer)

    @property
    def pointer(self) -> Pointer:
        return self.writer.pointer

    @property
    def ended_well(self) -> bool:
        return self.pointer.status.ended_well

    @property
    def has_cause(self) -> bool:
        """True if the driver reported why it failed."""
        return self.writer.last is not None and self.writer.last.went_wrong

    @property
    def lacks_master(self) -> bool:
        """True if the worker left because no JobMaster gives a sign of life (W7)."""
        return self.writer.last is not None and self.writer.last.lacks_master

    @property
    def run_is_over(self) -> bool:
        """True if the worker left because the run has failed as a whole."""
        return self.writer.last is not None and self.writer.last.run_is_over

    def ask_to_stop(self, warn: Callable[..., None]) -> bool:
        """Ask the driver to stop. Return False if no driver has claimed the job, or if the request failed."""
        pointer = self.pointer
        if pointer.epoch is None:
            return False  # no driver of this try has claimed the job yet
        try:
            self.hook.client(pointer.job_id).stop(epoch=pointer.epoch, exit_if_it_fails=True)
        except CkptError as error:
            warn("Could not ask the driver of job %s to stop: %s", pointer.job_id, error)
            return False
        return True

    def record_end(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for the end that this try's driver journals, and write it into the pointer.

        A killed task may have no time to read the driver's last line.
        """
        pointer = self.pointer
        with suppress(CkptError):
            state = self.hook.client(pointer.job_id).wait(lambda state: not state.is_held, timeout, poll=_POLL)
            if state.epoch == pointer.epoch and state.status is not None:
                self.writer.pointer = replace(self.pointer.as_of(state), status=state.status)
                self.writer.flush()

    def killed_error(self) -> AirflowException:
        """Return the error of a task that Airflow killed.

        A kill is an error even after a savepoint, because the shutdown of a worker must not end the job. A retry
        resumes the job.
        """
        end = (
            "its driver took a savepoint and left"
            if self.pointer.status is JobStatus.STOPPED
            else "its driver was killed"
        )
        checkpoint = self.pointer.checkpoint
        resumption = (
            f"resumes from checkpoint {checkpoint}" if checkpoint else "begins without a checkpoint: none has completed"
        )
        return AirflowException(f"Job {self.pointer.job_id}: this task was killed, and {end}. A retry {resumption}.")

    def failure(self, submitted: object, error: Exception, *, killed: bool = False) -> AirflowException:
        """Return AirflowFailException if another try would end the same way, else AirflowException for a retry.

        ``submitted`` is the hook that ran spark-submit, or None if the task failed before that. ``killed`` is True if
        Airflow killed the task.
        """
        hook = submitted if isinstance(submitted, CheckpointedSparkSubmitHook) else None
        last, job_id = self.writer.last, self.pointer.job_id
        code = hook.exit_code if hook is not None else None
        if last is not None and self.has_cause:
            message = f"Job {job_id}: {last.message} (exit code {code})"
            return AirflowFailException(message) if is_for_good(code, last.kind) else AirflowException(message)
        if killed:
            return self.killed_error()
        if last is None and hook is not None and hook.deploy_mode == "cluster":
            state = self._journal()
            if state is not None and state.status is JobStatus.FAILED:
                return AirflowFailException(f"Job {job_id} failed for good: {cause_first(state.cause or 'unknown')}")
        # The chained error has the whole command and the end of its output.
        return AirflowException(f"Job {job_id}: spark-submit ended with {code}" if code else f"Job {job_id}: {error}")

    def result(self) -> dict[str, Any]:
        """Return the task's result. A job that FINISHED or STOPPED is a success, whatever the exit code.

        Raises AirflowException if the journal shows no such end.
        """
        if not self.ended_well:
            state = self._journal()
            status = state.status if state is not None else None
            is_old = state is not None and status is JobStatus.STOPPED and state.epoch == self.stopped_epoch
            if state is None or is_old or status is None or not status.ended_well:
                note = ", as it was before" if is_old else ""
                raise AirflowException(
                    "spark-submit ended without an error, but the journal says that job "
                    f"{self.pointer.job_id} is {status or 'unknown'}{note}. In cluster mode spark-submit has to wait "
                    "for its application (waitAppCompletion), or the Spark operator has to track it."
                )
            self.writer.pointer = replace(self.pointer.as_of(state), status=status)
            self.writer.flush()
        return self.pointer.summary()

    def _journal(self) -> JobState | None:
        state = self.hook.client(self.pointer.job_id).read_state()
        return state if is_journaled(state) else None
