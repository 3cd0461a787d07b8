"""Polls of a driver in a cluster. They read the job's journal, and poll the cluster if the journal does not grow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.hooks.application import ApplicationReport, ApplicationState, ApplicationStatus, Submission
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.printable import one_line
from airflow_provider_ckpt.triggers.driver_verdict import DriverVerdict, is_of_submission, judge, must_poll_cluster

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.job_client import JobClient
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
    from airflow_provider_ckpt.journal.state import JobState


class DriverWatch:
    """Poller of a driver in a cluster, for one thread at a time. It blocks, and writes only in :meth:`ask_to_leave`.

    Args:
        every: Number of polls in a row without a new journal entry after which the cluster is polled.
        leaving: True if the driver must leave the job. The driver is asked as soon as it has the job. Any end of the
            driver then has the verdict ``left``.
    """

    def __init__(
        self,
        hook: CheckpointHook,
        job_id: str,
        submission: Submission,
        status: ApplicationStatus,
        *,
        every: int = 1,
        leaving: bool = False,
    ) -> None:
        self.submission = submission
        self._hook, self._job_id, self._status = hook, job_id, status
        self._every, self._leaving = every, leaving
        self._client: JobClient | None = None
        self._mark: tuple[int, int] | None = None
        self._unchanged_polls = 0
        self._asked_epoch: int | None = None

    def poll(self, *, asks_cluster: bool = False) -> DriverVerdict:
        """Poll the journal once and judge the driver. If ``asks_cluster`` is True, poll the cluster, too.

        Raises the errors of the root and the journal's format.
        """
        try:
            state = self.state()
            report = (
                self._report()
                if asks_cluster or self._is_due(state) or must_poll_cluster(state, self.submission)
                else None
            )
            if report is not None:
                state = self.state()  # read again, to see entries from before the end that the cluster reports
            if self._leaving and self._asked_epoch != state.epoch and self.ask_to_leave(state):
                self._asked_epoch = state.epoch
            verdict = judge(state, self.submission, report, was_asked_to_leave=self._was_asked_to_leave(state))
        except TransientError as error:
            return DriverVerdict("wait", str(error))
        return replace(verdict, message=one_line(self._hook.settings().redact(verdict.message)))

    def state(self) -> JobState:
        if self._client is None:
            self._client = self._hook.client(self._job_id)
        return self._client.read_state()

    def ask_to_leave(self, state: JobState) -> bool:
        """Ask the driver to leave. Return False if the driver does not have the job. Raises the storage's errors."""
        if not is_of_submission(state, self.submission) or not state.is_held:
            return False
        self._hook.client(self._job_id).stop(epoch=state.epoch, exit_if_it_fails=True)
        return True

    def _is_due(self, state: JobState) -> bool:
        """Return True if the cluster must be polled. A driver whose journal grows is alive and needs no poll."""
        mark = (state.epoch, state.position)
        self._unchanged_polls = self._unchanged_polls + 1 if mark == self._mark else 0
        self._mark = mark
        return self._unchanged_polls > 0 and self._unchanged_polls % self._every == 0

    def _report(self) -> ApplicationReport:
        report = self._status.report(self.submission)
        if report.state in (ApplicationState.RUNNING, ApplicationState.ENDED):
            application_id = self.submission.application_id or report.application_id
            self.submission = replace(self.submission, is_seen=True, application_id=application_id)
        elif report.state is ApplicationState.GONE and not self.submission.is_forgettable:
            doubt = "It was never seen there: does this ask the cluster that the driver was submitted to?"
            return replace(report, message=f"{report.message}. {doubt}")
        return report

    def _was_asked_to_leave(self, state: JobState) -> bool:
        """Return True if the driver was asked to leave. The request stays until the job's next driver starts."""
        if self._leaving:
            return True
        if not is_of_submission(state, self.submission) or state.status not in (
            JobStatus.STOPPED,
            JobStatus.RESTARTING,
        ):
            return False
        return self._hook.client(self._job_id).is_asked_to_leave(state.epoch)
