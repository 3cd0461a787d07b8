"""Requests to a job's driver, and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.jobmaster.applied_changes import is_rescaled, is_surely_changed
from airflow_provider_ckpt.journal.requests import Changes, RescaleRequest, UpgradeRequest
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome

NEEDLESS: Mapping[str, tuple[JobStatus, ...]] = {
    "stop": (JobStatus.STOPPED, JobStatus.FINISHED),
    "drain": (JobStatus.FINISHED,),
}
"""Kind of request → statuses in which the request is unnecessary."""


@dataclass(frozen=True)
class JobRequest:
    """A request to ``stop``, ``drain``, ``rescale``, ``reconfigure`` or ``upgrade``, for the driver of one epoch
    only.
    """

    job_id: str
    kind: str
    epoch: int
    name: str
    """The key of the answers in the journal (``JobState.answered``, ``JobState.outcomes``)."""
    rescale: RescaleRequest | None = None
    """The rescale, for a request of that kind."""
    changes: Changes = field(default_factory=dict, hash=False)
    """The changes of a reconfiguration, by operator."""
    upgrade: UpgradeRequest | None = None
    """The upgrade, for a request of that kind."""

    @property
    def ends_job(self) -> bool:
        """True for a stop or drain; any other request changes the job, which continues."""
        return self.rescale is None and not self.changes and self.upgrade is None

    def is_decided(self, state: JobState) -> bool:
        """Return True if later runs keep the requested change, whatever became of the driver."""
        if self.rescale is not None:
            return is_rescaled(state, self.rescale)
        if self.upgrade is not None:  # the journal does not record which version runs
            return False
        return self.name == state.reconfigured_for or is_surely_changed(state, self.changes)


@dataclass(frozen=True)
class JobAnswer:
    """The outcome of a request, with the job's state when the wait for it ended."""

    request: JobRequest
    state: JobState

    @property
    def outcome(self) -> RequestOutcome | None:
        """The driver's outcome in the journal; None if it has recorded none."""
        return self.state.outcomes.get(self.request.name)

    @property
    def is_served(self) -> bool:
        """True if the request was carried out.

        The savepoint of a stop is released, a drain has finished the job, or a change is applied now or by the next
        run.
        """
        if self.outcome is not None:
            return self.outcome.took_place
        if not self.request.ends_job:
            return self.request.is_decided(self.state)
        status = self.state.status
        return status is JobStatus.FINISHED or (self.request.kind == "stop" and status is JobStatus.STOPPED)


def advice(kind: str, state: JobState) -> str:
    """Return the next step for a user whose request no driver can take."""
    if state.has_finished or state.deletion is not None:
        return "It has ended for good, and nothing runs again"
    if state.status is JobStatus.FAILED:
        return "Mend the cause, and run the job with --resume-failed (in Airflow: clear its task)"
    if kind == "drain":
        return "Run the job with --drain-after 0 (in Airflow drain_after=0): it reads its bounded sources and FINISHES"
    if kind == "stop":
        return "Nothing runs, so there is nothing to stop; its next run resumes it"
    return "Run the job, then ask again"
