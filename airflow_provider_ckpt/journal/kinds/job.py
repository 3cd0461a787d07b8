"""The job as a whole: its submission and its status."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.kinds.requests import AnsweredRequests
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.job_status import JobStatus, RuntimeMode
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY, own_form
from airflow_provider_ckpt.model.limits import Instant
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions


@dataclass
class JobProgress(AnsweredRequests):
    created: JobCreated | None = None
    status: JobStatus | None = None
    """Last journaled status of the job; None if none was journaled. The first driver of a job journals no status until
    the job is RUNNING or its run ends (``JobState.is_held``)."""
    cause: str | None = None
    running_since: Instant | None = field(default=None, metadata=OMIT_EMPTY)
    """Time when all subtasks of the deployment first ran together; later JobMasters of the deployment keep it. None
    before that, and for a job without workers."""


def _document(options: SubmittedOptions) -> dict[str, object]:
    return dict(options.document)


@dataclass(frozen=True)
class JobCreated(JournalEvent):
    """The first event of a job: its graph, runtime mode and options as submitted."""

    job_id: str
    graph: JobGraph
    mode: RuntimeMode
    options: SubmittedOptions = field(metadata=own_form(_document, SubmittedOptions.read))
    at: Instant

    def apply(self, state: JobProgress) -> None:
        state.created = self


@dataclass(frozen=True)
class StatusChanged(JournalEvent):
    status: JobStatus
    at: Instant
    cause: str | None = None

    def apply(self, state: JobProgress) -> None:
        state.status, state.cause = self.status, self.cause
        if self.status is JobStatus.RUNNING and state.deployment and state.running_since is None:
            state.running_since = self.at
        if not self.status.is_alive:
            state.deployment, state.running_since = 0, None  # the workers exit
        if self.status is JobStatus.STOPPED:
            state.draining = False  # a stop overrides a drain, and the next run continues to read
