"""Look at a driver in a cluster again and again: in the journal, and now and then at what the cluster says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.hooks.application import ApplicationReport, ApplicationState, ApplicationStatus, Submission
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.printable import one_line
from airflow_provider_ckpt.triggers.driver_verdict import DriverVerdict, is_own, is_unsure, judge

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.job_client import JobClient
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
    from airflow_provider_ckpt.journal.state import JobState


class DriverWatch:
    """Blocking; one thread at a time. Writes nothing, but for :meth:`ask_to_leave`.

    ``every``: looks in a row without a change of the journal after which the cluster is asked. ``leaving``: the driver
    has to make room: it is asked to, once it can be, and any end is ``left``.
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
        self._still = 0
        self._asked: int | None = None

    def look(self, *, asks: bool = False) -> DriverVerdict:
        """``asks``: ask the cluster now. Raises what is wrong with the root or with the journal's format."""
        try:
            state = self.state()
            report = self._report() if asks or self._is_due(state) or is_unsure(state, self.submission) else None
            if report is not None:
                state = self.state()  # what was journaled before the end that the cluster tells
            if self._leaving and self._asked != state.epoch and self.ask_to_leave(state):
                self._asked = state.epoch
            verdict = judge(state, self.submission, report, was_asked_to_leave=self._was_asked_to_leave(state))
        except TransientError as error:
            return DriverVerdict("wait", str(error))
        return replace(verdict, message=one_line(self._hook.settings().redact(verdict.message)))

    def state(self) -> JobState:
        if self._client is None:
            self._client = self._hook.client(self._job_id)
        return self._client.look()

    def ask_to_leave(self, state: JobState) -> bool:
        """Whether the driver has the job, so that it could be asked. Raises the storage's errors."""
        if not is_own(state, self.submission) or not state.is_held:
            return False
        self._hook.client(self._job_id).stop(epoch=state.epoch, leaves=True)
        return True

    def _is_due(self, state: JobState) -> bool:
        """A journal that grows tells that the driver lives."""
        mark = (state.epoch, state.position)
        self._still = self._still + 1 if mark == self._mark else 0
        self._mark = mark
        return self._still > 0 and self._still % self._every == 0

    def _report(self) -> ApplicationReport:
        report = self._status.report(self.submission)
        if report.state in (ApplicationState.RUNNING, ApplicationState.ENDED):
            found = self.submission.application_id or report.application_id
            self.submission = replace(self.submission, is_seen=True, application_id=found)
        elif report.state is ApplicationState.GONE and not self.submission.is_forgettable:
            doubt = "It was never seen there: does this ask the cluster that the driver was submitted to?"
            return replace(report, message=f"{report.message}. {doubt}")
        return report

    def _was_asked_to_leave(self, state: JobState) -> bool:
        """The request stays with the job until its next driver comes."""
        if self._leaving:
            return True
        if not is_own(state, self.submission) or state.status not in (JobStatus.STOPPED, JobStatus.RESTARTING):
            return False
        return self._hook.client(self._job_id).is_asked_to_leave(state.epoch)
