"""What was asked of a job's driver, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from airflow_provider_ckpt.coordinator.affected import by_vertex
from airflow_provider_ckpt.coordinator.errors import ReconfigurationRefusedError
from airflow_provider_ckpt.journal.requests import Changes, RescaleRequest
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.vertex_settings import Settings, VertexSettings, merged, of_queries, rescales


@dataclass(frozen=True)
class JobRequest:
    """A driver was asked to ``stop``, to ``drain``, to ``rescale`` or to ``reconfigure``: that of this epoch, and no
    later one."""

    job_id: str
    kind: str
    epoch: int
    name: str
    """Under which the journal answers (``JobState.answered``, ``JobState.outcomes``)."""
    rescale: RescaleRequest | None = None
    """What is asked for, of that kind."""
    changes: Changes = field(default_factory=dict, hash=False)
    """Of a reconfiguration, by operator."""

    @property
    def ends_job(self) -> bool:
        """Else it is to go on, as another one."""
        return self.rescale is None and not self.changes

    def is_decided(self, state: JobState) -> bool:
        """Later runs go by it, whatever became of the driver that was asked."""
        if self.rescale is not None:
            return is_decided(state, self.rescale)
        return bool(self.changes) and is_changed(state, self.changes)


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


def is_changed(state: JobState, changes: Changes) -> bool:
    """Whether the job runs, or would run next, with what they say."""
    try:
        change = by_vertex(state.graph(), changes)
    except ReconfigurationRefusedError:
        return False
    scaled = all(is_decided(state, RescaleRequest(uid, number)) for uid, number in rescales(change).items())
    return scaled and _without_digests(merged(state.settings, of_queries(change))) == _without_digests(state.settings)


def _without_digests(settings: Settings) -> dict[str, VertexSettings]:
    """Whoever asks names a file, and does not say what is in it."""
    return {uid: replace(one, digests={}) for uid, one in settings.items()}


def is_decided(state: JobState, asked: RescaleRequest) -> bool:
    """Later runs go by it, whatever became of the driver that was asked."""
    if state.plan is None:
        return False
    source = None if state.plan.definition is None else state.plan.definition.sources.get(asked.uid)
    declared = None if source is None else source.parallelism
    return state.plan.rescaled.get(asked.uid, declared) == asked.parallelism
