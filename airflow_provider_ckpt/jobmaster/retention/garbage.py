"""The answer of ``ckpt gc``: files and staged output of jobs that are no longer needed, each with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from airflow_provider_ckpt.model.job_status import JobStatus


class Reason(str, Enum):
    """The reason why a piece of garbage is no longer needed. Each value is its own text in JSON."""

    FINISHED = "finished"
    """Data of a FINISHED job whose driver died or failed before the clean-up was complete."""
    DELETED = "deleted"
    """Data that a paused driver wrote after the job was DELETED."""
    ATTEMPT = "attempt"
    """Data of an attempt that is over. No log entry and no prepared batch names the data."""
    FEED = "feed"
    """Feed of an earlier attempt of the consumer. The current attempt has its own copy (R8)."""
    OPERATOR = "operator"
    """Data of an operator that the job no longer has, or data from before a restart from scratch."""
    SUBTASK = "subtask"
    """Data of a finished subtask that no restore starts again."""
    STAGED = "staged"
    """Staged output that can no longer be released, in the target of a sink (R5)."""
    REQUEST = "request"
    """A request to an earlier driver (R22)."""
    DEPLOYMENT = "deployment"
    """Messages between the workers and JobMasters of a deployment that is over."""
    CHECKPOINT = "checkpoint"
    """The portable copy of a checkpoint that the journal no longer remembers."""
    FROZEN = "frozen"
    """The frozen list of a source from before a restart from scratch, or from before the source was dropped (R11)."""
    TEMPORARY = "temporary"
    """Temporary file of a killed writer, or of an unknown writer if the file is at least an hour old."""

    __str__ = str.__str__


@dataclass(frozen=True)
class Garbage:
    """One file, folder or staged batch that is deleted as a whole."""

    path: str
    """Path under the root. For ``STAGED`` garbage, the id of the staged batch."""
    reason: Reason
    files: int
    bytes: int
    is_folder: bool = False
    sink: str | None = None
    """Uid of the sink, for staged output only."""


@dataclass(frozen=True)
class JobGarbage:
    """The garbage of one job."""

    job_id: str
    status: JobStatus | None = None
    """Status of the job; None if it has none or its journal cannot be read."""
    epoch: int = 0
    garbage: tuple[Garbage, ...] = ()
    """Garbage that a deletion would remove, or has removed."""
    skipped: str | None = None
    """Why some or all garbage is not deleted now, for example because the job may be running; None if nothing was
    skipped."""
    problem: str | None = None
    """An error that ended the search or the deletion of the job's garbage, or None."""
    left: tuple[str, ...] = ()
    """Parts that were not checked, with the reasons."""

    @property
    def files(self) -> int:
        return sum(piece.files for piece in self.garbage)

    @property
    def bytes(self) -> int:
        return sum(piece.bytes for piece in self.garbage)


@dataclass(frozen=True)
class StrangeFolder:
    """A folder under a root that, by its name, is no job. The garbage collection never changes it."""

    name: str
    what: str


def garbage_of(path: str, reason: Reason, sizes: Iterable[int], sink: str | None = None) -> Garbage:
    """Return the garbage for a folder whose files have these ``sizes`` in bytes."""
    file_sizes = list(sizes)
    return Garbage(path, reason, len(file_sizes), sum(file_sizes), is_folder=True, sink=sink)
