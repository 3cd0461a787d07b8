"""What was asked of a job's driver, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.jobmaster.decided import is_rescaled, is_surely_changed
from airflow_provider_ckpt.journal.requests import Changes, RescaleRequest, UpgradeRequest
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome


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
