"""A driver that runs in a cluster, beside no task: how it was submitted, and what the cluster says about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any, Protocol


class ApplicationState(str, Enum):
    """What is not known is never taken for an end: a driver that lives must not get a twin."""

    RUNNING = "running"
    """Or waiting for its turn."""
    ENDED = "ended"
    GONE = "gone"
    """The cluster answers, and does not know it. It has forgotten it, or it is the wrong cluster."""
    UNKNOWN = "unknown"
    """The cluster does not answer, or what it answers is not understood."""

    __str__ = str.__str__


@dataclass(frozen=True)
class ApplicationReport:
    """``message``: one line for people, without secrets. ``application_id``: Spark's, if it was told."""

    state: ApplicationState
    message: str
    application_id: str | None = None


@dataclass(frozen=True)
class Submission:
    """One driver that was, or was to be, submitted. Kept in the task state store *before* it is submitted, and handed
    to the trigger: no secret is in it."""

    cluster: str
    """``yarn`` or ``kubernetes``."""
    tag: str
    """Drawn for this submission, and given to the cluster with it: so the driver is found again by whoever knows no
    application id, as the worker was lost while spark-submit ran."""
    attempt: str
    """Name of the attempt in the job's journal."""
    after_epoch: int
    """The job's epoch before: what a later one says is this driver's doing, or that of one behind it."""
    namespace: str | None = None
    """Of Kubernetes."""
    kerberos: bool = False
    """Whether YARN's ResourceManager is asked with the Kerberos ticket of the process that asks."""
    application_id: str | None = None
    is_submitted: bool = False
    """spark-submit ended well."""
    is_seen: bool = False
    """The cluster, as it is asked here, knew the application once."""

    @property
    def is_forgettable(self) -> bool:
        """Whether GONE tells an end: of one that was there, or never came to be. Else the wrong cluster is asked."""
        return self.is_seen or not self.is_submitted

    @property
    def shown(self) -> str:
        return self.application_id or f"tagged {self.tag}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> Submission | None:
        """None if it is none: anybody can edit the task state store in the UI."""
        if not isinstance(value, Mapping):
            return None
        known = {one.name: value[one.name] for one in fields(cls) if one.name in value}
        try:
            made = cls(**known)
        except TypeError:
            return None
        texts = (made.cluster, made.tag, made.attempt)
        optional = (made.namespace, made.application_id)
        is_one = all(isinstance(text, str) for text in texts) and isinstance(made.after_epoch, int)
        return made if is_one and all(one is None or isinstance(one, str) for one in optional) else None


class ApplicationStatus(Protocol):
    """A cluster that is asked about applications. Blocking; a thread at a time."""

    def report(self, submission: Submission) -> ApplicationReport:
        """Does not raise for a cluster that does not answer, or answers strangely: that is UNKNOWN."""


@dataclass(frozen=True)
class NotAsked:
    """Of a cluster that cannot be asked from here: the journal alone is looked at."""

    problem: str

    def report(self, submission: Submission) -> ApplicationReport:
        told = f"The cluster is not asked about application {submission.shown}: {self.problem}"
        return ApplicationReport(ApplicationState.UNKNOWN, told)
