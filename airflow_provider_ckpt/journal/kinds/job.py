"""The job as a whole: what was submitted, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.kinds.requests import AnsweredRequests
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.json_form import LATER, own_form
from airflow_provider_ckpt.model.limits import Instant
from airflow_provider_ckpt.model.mode import RuntimeMode
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions


@dataclass
class JobProgress(AnsweredRequests):
    created: JobCreated | None = None
    status: JobStatus | None = None
    """None: no driver has told one; the first tells none before it is RUNNING (``JobState.is_held``)."""
    cause: str | None = None
    running_since: Instant | None = field(default=None, metadata=LATER)
    """When the deployment's subtasks were all running first; None for a job without workers, and before. One JobMaster
    after the other counts from there."""


def _document(options: SubmittedOptions) -> dict[str, object]:
    return dict(options.document)


@dataclass(frozen=True)
class JobCreated(JournalEvent):
    """First event of a job: its graph, runtime mode and options, as they were submitted."""

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
            state.deployment, state.running_since = 0, None  # its workers leave
        if self.status is JobStatus.STOPPED:
            state.draining = False  # a stop wins over a drain; the next run goes on reading
