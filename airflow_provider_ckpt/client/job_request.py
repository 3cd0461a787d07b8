"""What was asked of a job's driver, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.journal.requests import RescaleRequest
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome


@dataclass(frozen=True)
class JobRequest:
    """A driver was asked to ``stop``, to ``drain`` or to ``rescale``: that of this epoch, and no later one."""

    job_id: str
    kind: str
    epoch: int
    name: str
    """Under which the journal answers (``JobState.answered``, ``JobState.outcomes``)."""
    rescale: RescaleRequest | None = None
    """What is asked for, of that kind."""


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
        if self.request.rescale is not None:
            return is_decided(self.state, self.request.rescale)
        status = self.state.status
        return status is JobStatus.FINISHED or (self.request.kind == "stop" and status is JobStatus.STOPPED)


def is_decided(state: JobState, asked: RescaleRequest) -> bool:
    """Later runs go by it, whatever became of the driver that was asked."""
    if state.plan is None:
        return False
    source = None if state.plan.definition is None else state.plan.definition.sources.get(asked.uid)
    declared = None if source is None else source.parallelism
    return state.plan.rescaled.get(asked.uid, declared) == asked.parallelism
