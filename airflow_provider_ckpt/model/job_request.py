"""Requests to the driver of a job: one class for each verb. CONTRIBUTING.md has the steps to add a verb.

The client writes a request into the job's folder. The JobMaster reads it and passes it to the coordinator unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY, UNRECORDED
from airflow_provider_ckpt.model.setting_ranges import problem_of_settings
from airflow_provider_ckpt.model.vertex_settings import VertexSettings

Changes = Mapping[str, VertexSettings]
"""Operator uid → settings to change in the query that runs it."""


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """A request to the driver of ``epoch``. Drivers of later epochs ignore it, except after an upgrade."""

    kind: ClassVar[str]
    """The verb of the class, such as ``stop``, also in stored requests and in answers."""
    is_change: ClassVar[bool] = False
    """True if the request changes a job that then continues. A driver carries out one change at a time."""
    done_in: ClassVar[tuple[JobStatus, ...]] = ()
    """Job statuses in which the request has nothing to do. Empty if the request does not end the job."""

    name: str = field(default="", metadata=UNRECORDED)
    """Name of the request, under which its answers are journaled. Empty if the JobMaster made it: no answer."""
    epoch: int = 0
    at: float = 0.0
    """Time of the request in epoch seconds."""

    @property
    def verb(self) -> str:
        """The verb in messages to the user, such as ``stop`` or ``rescale``."""
        return self.kind

    @property
    def ends_job(self) -> bool:
        return bool(self.done_in)

    def value_problem(self) -> str | None:
        """Return why a value of the request is out of its range; None if all values are in range.

        The types of values are checked earlier.
        """
        return None


@dataclass(frozen=True)
class StopRequest(JobRequest):
    """A request to take a savepoint, release it and end the run. No source is finished, and the next run resumes."""

    kind = "stop"
    done_in = (JobStatus.STOPPED, JobStatus.FINISHED)

    exit_if_it_fails: bool = field(default=False, metadata=OMIT_EMPTY)
    """True if the driver must exit even without a savepoint. Otherwise a failed stop leaves the job running."""


@dataclass(frozen=True)
class DrainRequest(JobRequest):
    """A request to read all data that exists at the request, release the output and finish the job."""

    kind = "drain"
    done_in = (JobStatus.FINISHED,)

    at_once: bool = field(default=False, metadata=OMIT_EMPTY)
    """True if live sources end at once, and the rest of their input stays unread."""


@dataclass(frozen=True)
class ReconfigureRequest(JobRequest):
    """A request to change settings of operators while the job runs. A setting that is None or empty stays unchanged.

    A rescale is such a request: it changes the parallelism of one source with splits.
    """

    kind = "reconfigure"
    is_change = True

    changes: Changes = field(default_factory=dict, hash=False)
    by: str | None = field(default=None, metadata=UNRECORDED)
    """Name of the controller that requests the change; None for a user. ``why`` is the controller's reason."""
    why: str | None = field(default=None, metadata=UNRECORDED)

    @property
    def verb(self) -> str:
        return self.kind if self.rescale is None else "rescale"

    @property
    def rescale(self) -> tuple[str, int] | None:
        """(source with splits, its new parallelism) if the request changes only this parallelism, else None."""
        widths = [(uid, change.parallelism) for uid, change in self.changes.items()]
        uid, parallelism = widths[0] if len(widths) == 1 else ("", None)
        return None if parallelism is None else (uid, parallelism)

    def value_problem(self) -> str | None:
        if not self.changes:
            return "it has no changes"
        for uid, settings in self.changes.items():
            problem = "no setting is given" if settings.is_declared else problem_of_settings(settings)
            if problem is not None:
                return f"changes of {uid}: {problem}"
        return None


@dataclass(frozen=True)
class UpgradeRequest(JobRequest):
    """A request that the same driver resumes the job as another version."""

    kind = "upgrade"
    is_change = True

    job: str | None = None
    """Reference of the new version (``path/to/file.py:job``) on the driver's host; None: the current file, reread."""
    allow_non_restored_state: bool = False
    """True if the new version may lack operators of the job."""


@dataclass(frozen=True)
class InvalidRequest(JobRequest):
    """A file in the requests folder that is no request."""

    kind = "invalid"

    problem: str
    """Why the file could not be understood."""
    is_unreadable: bool = False
    """True if storage cannot read the file, or its content is malformed. Later the file may be readable.

    Such a file gets no answer. Any other invalid request is refused in the journal, because its author waits for it.
    """


REQUESTS: Mapping[str, type[JobRequest]] = {
    request.kind: request for request in (StopRequest, DrainRequest, ReconfigureRequest, UpgradeRequest)
}
"""Verb → class of its requests, for all requests that clients may write."""


def asks_to_exit(request: JobRequest) -> bool:
    """Return whether the request is a stop after which the driver exits even without a savepoint."""
    return isinstance(request, StopRequest) and request.exit_if_it_fails
