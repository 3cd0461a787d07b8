"""A driver that runs in a cluster without a task: its submission, and the cluster's report about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any, Protocol


class ApplicationState(str, Enum):
    """State of an application in its cluster. UNKNOWN must not count as an end, or a job could get two drivers."""

    RUNNING = "running"
    """The application runs or waits for resources."""
    ENDED = "ended"
    GONE = "gone"
    """The cluster does not have the application. It has forgotten the application, or is the wrong cluster."""
    UNKNOWN = "unknown"
    """The cluster has not answered, or its answer cannot be read."""

    __str__ = str.__str__


@dataclass(frozen=True)
class ApplicationReport:
    """Report of a cluster about an application.

    ``message`` is one line for users, without secrets. ``application_id`` is None if the answer lacks it.
    """

    state: ApplicationState
    message: str
    application_id: str | None = None


@dataclass(frozen=True)
class Submission:
    """Submission of one driver, done or planned, without secrets. Airflow stores it *before* the driver starts."""

    cluster: str
    """``yarn`` or ``kubernetes``."""
    tag: str
    """Random tag that the cluster stores with the driver. It identifies a driver without a known application id, for
    example if the worker was lost while spark-submit ran."""
    attempt: str
    """Name under which the driver claims the job in the journal."""
    after_epoch: int
    """The job's epoch before the submission. The driver claims a later epoch."""
    namespace: str | None = None
    kerberos: bool = False
    """True if requests to YARN's ResourceManager use the Kerberos ticket of the requesting process."""
    application_id: str | None = None
    is_submitted: bool = False
    """True if spark-submit ended without an error."""
    is_seen: bool = False
    """True if the cluster has reported the application before."""

    @property
    def is_forgettable(self) -> bool:
        """True if GONE means that the driver has ended.

        That is so if the cluster has reported the application before, or if spark-submit has not ended well. Otherwise
        the polled cluster may be the wrong cluster.
        """
        return self.is_seen or not self.is_submitted

    @property
    def shown(self) -> str:
        return self.application_id or f"tagged {self.tag}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> Submission | None:
        """Return the submission. None if ``value`` has another form (users can edit the task state store)."""
        if not isinstance(value, Mapping):
            return None
        values = {field.name: value[field.name] for field in fields(cls) if field.name in value}
        try:
            submission = cls(**values)
        except TypeError:
            return None
        texts = (submission.cluster, submission.tag, submission.attempt)
        optional = (submission.namespace, submission.application_id)
        is_valid = all(isinstance(text, str) for text in texts) and isinstance(submission.after_epoch, int)
        return submission if is_valid and all(field is None or isinstance(field, str) for field in optional) else None


class ApplicationStatus(Protocol):
    """Access to a cluster's reports about applications. Calls block, and only one thread at a time may call."""

    def report(self, submission: Submission) -> ApplicationReport:
        """Return the cluster's report. Its state is UNKNOWN if there is no usable answer. Never raises."""


@dataclass(frozen=True)
class NotAsked:
    """Replacement for a cluster that cannot be polled. Every report is UNKNOWN, so verdicts depend on the journal."""

    problem: str

    def report(self, submission: Submission) -> ApplicationReport:
        message = f"The cluster is not asked about application {submission.shown}: {self.problem}"
        return ApplicationReport(ApplicationState.UNKNOWN, message)
