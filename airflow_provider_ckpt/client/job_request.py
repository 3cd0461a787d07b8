"""What was asked of a job's driver, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.jobmaster.decided import is_rescaled, is_surely_changed
from airflow_provider_ckpt.journal.requests import Changes, RescaleRequest, UpgradeRequest
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome

NEEDLESS: Mapping[str, tuple[JobStatus, ...]] = {
    "stop": (JobStatus.STOPPED, JobStatus.FINISHED),
    "drain": (JobStatus.FINISHED,),
}
"""By kind of request, the status of a job of which nothing needs to be asked."""


@dataclass(frozen=True)
class JobRequest:
    """A driver was asked to ``stop``, to ``drain``, to ``rescale``, to ``reconfigure`` or to ``upgrade``: that of this
    epoch, and no later one."""

    job_id: str
    kind: str
    epoch: int
    name: str
    """Under which the journal answers (``JobState.answered``, ``JobState.outcomes``)."""
    rescale: RescaleRequest | None = None
    """What is asked for, of that kind."""
    changes: Changes = field(default_factory=dict, hash=False)
    """Of a reconfiguration, by operator."""
    upgrade: UpgradeRequest | None = None
    """Of that kind."""

    @property
    def ends_job(self) -> bool:
        """Else it is to go on, as another one."""
        return self.rescale is None and not self.changes and self.upgrade is None

    def is_decided(self, state: JobState) -> bool:
        """Later runs go by it, whatever became of the driver that was asked."""
        if self.rescale is not None:
            return is_rescaled(state, self.rescale)
        if self.upgrade is not None:  # which version runs the journal does not say
            return False
        return self.name == state.reconfigured_for or is_surely_changed(state, self.changes)


@dataclass(frozen=True)
class JobAnswer:
    """What came of a request. ``state``: of the job then."""

    request: JobRequest
    state: JobState

    @property
    def outcome(self) -> RequestOutcome | None:
        """The driver's last word. None if it said none, as drivers of earlier releases do."""
        return self.state.outcomes.get(self.request.name)

    @property
    def is_served(self) -> bool:
        """Whether it took place: the savepoint of a stop is released, a drain has finished the job, a source is read by
        as many as was asked for, or will be in the next run."""
        if self.outcome is not None:
            return self.outcome.took_place
        if not self.request.ends_job:
            return self.request.is_decided(self.state)
        status = self.state.status
        return status is JobStatus.FINISHED or (self.request.kind == "stop" and status is JobStatus.STOPPED)


def advice(kind: str, state: JobState) -> str:
    """Return what to do for a job that no driver has, and that was asked for something."""
    if state.has_finished or state.deletion is not None:
        return "It has ended for good, and nothing runs again"
    if state.status is JobStatus.FAILED:
        return "Mend the cause, and run the job with --resume-failed (in Airflow: clear its task)"
    if kind == "drain":
        return "Run the job with --drain-after 0 (in Airflow drain_after=0): it reads its bounded sources and FINISHES"
    if kind == "stop":
        return "Nothing runs, so there is nothing to stop; its next run resumes it"
    return "Run the job, then ask again"
