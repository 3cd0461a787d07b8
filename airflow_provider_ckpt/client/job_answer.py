"""The answer of a job to a request."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.jobmaster.applied_changes import is_decided
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_request import JobRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome


@dataclass(frozen=True)
class JobAnswer:
    """The outcome of a request, and the job's state when the wait for the outcome ended."""

    request: JobRequest
    state: JobState

    @property
    def outcome(self) -> RequestOutcome | None:
        """The request's outcome in the journal; None if the driver has recorded no outcome."""
        return self.state.outcomes.get(self.request.name)

    @property
    def is_served(self) -> bool:
        """True if the request is carried out.

        A stop's savepoint is then released, a drain has finished the job, or a change is decided.
        """
        if self.outcome is not None:
            return self.outcome.is_carried_out
        return self.state.status in self.request.done_in or is_decided(self.state, self.request)


def advice(kind: str, state: JobState) -> str:
    """Return the next step for a user whose request no driver can carry out. ``kind`` is the verb of the request."""
    if state.has_finished or state.deletion is not None:
        return "It has ended for good, and nothing runs again"
    if state.status is JobStatus.FAILED:
        return "Mend the cause, and run the job with --resume-failed (in Airflow: clear its task)"
    if kind == "drain":
        return "Run the job with --drain-after 0 (in Airflow drain_after=0): it reads its bounded sources and FINISHES"
    if kind == "stop":
        return "Nothing runs, so there is nothing to stop; its next run resumes it"
    return "Run the job, then ask again"
