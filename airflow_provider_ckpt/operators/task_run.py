"""One execution of the operator, and what its end means for the task."""

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
from airflow_provider_ckpt.job.causes import cause_first
from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.operators.links import LinkPusher
from airflow_provider_ckpt.operators.pointer import Pointer, PointerWriter
from airflow_provider_ckpt.report.exit_code import is_for_good
from airflow_provider_ckpt.report.status_line import StatusLine

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState


_POLL = 0.2
"""Seconds between two polls of the journal while a task is killed."""


@dataclass(frozen=True)
class TaskRun:
    """What ``_get_hook`` and ``on_kill``, which are given no context, have to know."""

    hook: CheckpointHook
    writer: PointerWriter
    options: RunOptions
    stopped_epoch: int | None = None
    """Of a job that was STOPPED already before anything was submitted: that end is not this try's."""
    links: LinkPusher | None = None

    def see(self, line: StatusLine) -> None:
        """The driver has said it. In the thread that reads its output."""
        self.writer.see(line)
        if self.links is not None:
            self.links.see(self.pointer)

    @property
    def pointer(self) -> Pointer:
        return self.writer.pointer

    @property
    def ended_well(self) -> bool:
        return self.pointer.status.ended_well

    @property
    def told_why(self) -> bool:
        """The driver said why it ended."""
        return self.writer.last is not None and self.writer.last.went_wrong

    @property
    def lacks_master(self) -> bool:
        """Its worker left because no JobMaster gives a sign of life (W7)."""
        return self.writer.last is not None and self.writer.last.lacks_master

    @property
    def run_is_over(self) -> bool:
        """Its worker left because the run has failed as a whole."""
        return self.writer.last is not None and self.writer.last.run_is_over

    def ask_to_stop(self, warn: Callable[..., None]) -> bool:
        """Whether there was a driver to ask, and it could be asked."""
        pointer = self.pointer
        if pointer.epoch is None:
            return False  # no driver has taken the job over yet
        try:
            self.hook.client(pointer.job_id).stop(epoch=pointer.epoch, leaves=True)
        except CkptError as error:
            warn("Could not ask the driver of job %s to stop: %s", pointer.job_id, error)
            return False
        return True

    def note_end(self, timeout: float) -> None:
        """Wait for the end that the driver of this try journals, and write it into the pointer.

        A task that is killed may have no time to read the driver's last line. Without an end the pointer stays.
        """
        pointer = self.pointer
        with suppress(CkptError):
            state = self.hook.client(pointer.job_id).wait(lambda seen: not seen.is_held, timeout, poll=_POLL)
            if state.epoch == pointer.epoch and state.status is not None:
                self.writer.pointer = replace(self.pointer.as_of(state), status=state.status)
                self.writer.flush()

    def was_killed(self) -> AirflowException:
        """How a task ends that Airflow killed, also when its driver had the time for a savepoint: a worker that is
        shut down does not end the job, so this is no success, and worth a retry."""
        stopped = (
            "its driver took a savepoint and left"
            if self.pointer.status is JobStatus.STOPPED
            else "its driver was killed"
        )
        last = self.pointer.checkpoint
        begins = f"goes on from checkpoint {last}" if last else "begins without a checkpoint: none has completed"
        return AirflowException(f"Job {self.pointer.job_id}: this task was killed, and {stopped}. A retry {begins}.")

    def failure(self, submitted: object, error: Exception, *, killed: bool = False) -> AirflowException:
        """AirflowFailException when another try would end the same way, else one that is retried.

        ``submitted``: the hook that ran spark-submit, if it came that far.
        """
        hook = submitted if isinstance(submitted, CheckpointedSparkSubmitHook) else None
        last, job_id = self.writer.last, self.pointer.job_id
        code = hook.exit_code if hook is not None else None
        if last is not None and self.told_why:
            message = f"Job {job_id}: {last.message} (exit code {code})"
            return AirflowFailException(message) if is_for_good(code, last.kind) else AirflowException(message)
        if killed:
            return self.was_killed()
        if last is None and hook is not None and hook.deploy_mode == "cluster":
            state = self._journal()
            if state is not None and state.status is JobStatus.FAILED:
                return AirflowFailException(f"Job {job_id} failed for good: {cause_first(state.cause or 'unknown')}")
        # The whole command and the end of its output are in the error this one is raised from.
        return AirflowException(f"Job {job_id}: spark-submit ended with {code}" if code else f"Job {job_id}: {error}")

    def result(self) -> dict[str, Any]:
        """Success is a job that ended FINISHED or STOPPED, not an exit code. Raises AirflowException."""
        if not self.ended_well:
            state = self._journal()
            status = state.status if state is not None else None
            old = state is not None and status is JobStatus.STOPPED and state.epoch == self.stopped_epoch
            if state is None or old or status is None or not status.ended_well:
                before = ", as it was before" if old else ""
                raise AirflowException(
                    "spark-submit ended without an error, but the journal says that job "
                    f"{self.pointer.job_id} is {status or 'unknown'}{before}. In cluster mode spark-submit has to wait "
                    "for its application (waitAppCompletion), or the Spark operator has to track it."
                )
            self.writer.pointer = replace(self.pointer.as_of(state), status=status)
            self.writer.flush()
        return self.pointer.summary()

    def _journal(self) -> JobState | None:
        state = self.hook.client(self.pointer.job_id).look()
        return state if is_journaled(state) else None
