"""The polls of a job for which a sensor waits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_ckpt.errors import TransientError, kind_and_text
from airflow_provider_ckpt.hooks.job_of_task import UNANSWERED
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.triggers.condition import CheckpointCondition, Verdict
from airflow_provider_ckpt.triggers.stall_detector import LastProgress, StallDetector, stall_limit

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.job_client import JobClient
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
    from airflow_provider_ckpt.hooks.job_of_task import FoundJob, JobOfTask
    from airflow_provider_ckpt.journal.state import JobState


class JobPoll:
    """Repeated poll of a job for a sensor.

    Calls must be at least ``interval`` seconds apart. The wait continues while the storage or Airflow's
    API server does not answer.

    Args:
        task: The task that runs the job, instead of ``condition.job_id``.
        stalled_after: Seconds without a new journal entry after which the wait fails, unless this host sees that the
            driver is alive. None means the limit of :func:`stall_limit`.
        max_checkpoint_age: Seconds without a new checkpoint after which the wait fails, even if a driver runs the job.
            None means no limit.
        seen: Last progress of the job in the polls of an earlier process. None if there was none.
        next_of: For ``checkpoint="next"``, (job id, number of the first checkpoint triggered after the first poll), if
            an earlier process made the first poll. A number is stored, because the clocks of two hosts may differ.
    """

    def __init__(
        self,
        hook: CheckpointHook,
        condition: CheckpointCondition,
        *,
        interval: float,
        task: JobOfTask | None = None,
        stalled_after: float | None = None,
        max_checkpoint_age: float | None = None,
        seen: LastProgress | None = None,
        next_of: tuple[str, int] | None = None,
    ) -> None:
        self._hook, self._given_condition, self._task = hook, condition, task
        self._interval, self._stalled_after, self._max_age = interval, stalled_after, max_checkpoint_age
        self._client: JobClient | None = None
        self.condition = condition
        self.seen = seen or LastProgress()
        self.next_of = next_of

    def __call__(self) -> Verdict:
        """Poll once and return the verdict.

        Raises:
            InvalidTaskArgumentError: the arguments name no job.
            TerminalError: the root or the journal's format cannot be used. Errors of the connection are raised, too.
        """
        try:
            job = None if self._task is None else self._task.find()
        except UNANSWERED as error:
            return Verdict("wait", f"Airflow does not answer about task {self._task_id}: {kind_and_text(error)}")
        if job is not None and job.job_id is None:
            return self._with_task_state(Verdict("wait", f"Task {self._task_id} has not begun"), job)
        if job is not None and job.job_id is not None:
            self._follow(job.job_id)
        try:
            state = self._state()
        except TransientError as error:
            return Verdict("wait", str(error))
        verdict = self.condition.judge(state)
        if job is not None and verdict.outcome == "wait":
            verdict = self._with_task_state(verdict, job, has_stopped=state.status is JobStatus.STOPPED)
        if verdict.outcome != "wait":
            return verdict
        self.seen = self.seen.after(state, released=self.condition.released)
        if self._max_age is not None and (overdue := self._overdue(state, self._max_age)) is not None:
            return overdue
        return self._stalled_verdict(state) if self._is_stalled(state, job) else verdict

    def _state(self) -> JobState:
        if self._client is None:
            self._client = self._hook.client(self.condition.job_id)
        state = self._client.read_state()
        if self.condition.checkpoint == "next":
            job_id = self.condition.job_id
            if self.next_of is None or self.next_of[0] != job_id:
                self.next_of = (job_id, state.last_triggered + 1)
            self.condition = replace(self.condition, checkpoint=self.next_of[1])
        return state

    @property
    def _task_id(self) -> str:
        return "" if self._task is None else self._task.task_id

    def _follow(self, job_id: str) -> None:
        """Poll job ``job_id`` from this poll on. It is another job than before if the task was cleared."""
        if job_id != self.condition.job_id:
            self.condition = replace(self._given_condition, job_id=job_id)
            self._client, self.seen = None, self.seen if self._client is None else LastProgress()

    def _with_task_state(self, verdict: Verdict, job: FoundJob, *, has_stopped: bool = False) -> Verdict:
        """Return ``verdict``, or a failure if the task's state shows that the wait is in vain.

        A retry resumes a STOPPED job. A successful task resumes nothing, and the next Dag run may wait for this sensor.
        """
        if self.condition.wait_for_restart:
            return verdict
        if job.is_over:
            return Verdict("failed", f"Task {self._task_id} is {job.state}. {verdict.message}")
        if job.job_id is None and job.state == "success":
            return Verdict("failed", f"Task {self._task_id} succeeded without a job id, so it runs no job")
        if has_stopped and job.state == "success":
            return Verdict("failed", f"Task {self._task_id} succeeded, so it resumes nothing. {verdict.message}")
        return verdict

    def _is_stalled(self, state: JobState, job: FoundJob | None) -> bool:
        if self.condition.wait_for_restart or (job is not None and job.is_run):
            return False
        alive = is_alive(state.worker)
        limit = self._stalled_after if self._stalled_after is not None and not alive else stall_limit(state, alive)
        return limit is not None and self._seconds(self.seen.journal) >= limit

    def _seconds(self, detector: StallDetector) -> float:
        return detector.polls * self._interval

    def _overdue(self, state: JobState, max_age: float) -> Verdict | None:
        """Return a failure in batch mode, or if no checkpoint was new for ``max_age`` seconds of polls. Else None."""
        if state.created is not None and state.created.mode == "batch":
            problem = "its only checkpoint comes at its end: leave max_checkpoint_age out"
            return Verdict("failed", f"Job {self.condition.job_id} runs in batch mode, and {problem}")
        seconds = self._seconds(self.seen.checkpoint)
        if seconds < max_age:
            return None
        action = "released" if self.condition.released else "completed"
        shown = self.condition.judge(state).message
        return Verdict("failed", f"No checkpoint was {action} for {round(seconds)} s (max_checkpoint_age). {shown}")

    def _stalled_verdict(self, state: JobState) -> Verdict:
        seconds, status = round(self._seconds(self.seen.journal)), state.status or "not RUNNING yet"
        driver = "is gone" if is_alive(state.worker) is False else f"on {state.worker.host or 'a host unknown'}"
        return Verdict(
            "failed",
            f"Job {self.condition.job_id} is {status}, but nothing was journaled for {seconds} s "
            f"(driver {driver}): no driver runs it. It will not reach {self.condition.wanted()}",
        )
