"""What nothing needs any more of the jobs under a root, and why: the answer of ``ckpt gc``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from airflow_provider_ckpt.model.job_status import JobStatus


class Reason(str, Enum):
    """Why nothing needs it. Each is its own text in JSON."""

    FINISHED = "finished"
    """The job has FINISHED, and who finished it died, or failed, before it had given this back."""
    DELETED = "deleted"
    """The job is DELETED: a driver that slept through it has written this since."""
    ATTEMPT = "attempt"
    """An attempt has left it that a later one follows, and no entry of a log names it, nor a batch that is prepared."""
    FEED = "feed"
    """What an earlier attempt of the consumer was fed; the one of now has taken it up (R8)."""
    OPERATOR = "operator"
    """Of an operator that the job has no longer, or of what it had before it was begun anew."""
    SUBTASK = "subtask"
    """A finished subtask left it, and no restore starts that subtask again."""
    STAGED = "staged"
    """Staged output, in the target of a sink, that nobody can release any more (R5)."""
    REQUEST = "request"
    """It was for a driver before the last one (R22)."""
    DEPLOYMENT = "deployment"
    """What the workers of a deployment that is over, and their JobMasters, said to each other."""
    CHECKPOINT = "checkpoint"
    """The portable copy of a checkpoint that the journal remembers no more."""
    FROZEN = "frozen"
    """The frozen list of a source as it was before the job, or the source, was begun anew (R11)."""
    TEMPORARY = "temporary"
    """A writer that was killed left it. If the writer cannot be judged from here, that was an hour ago or longer."""

    __str__ = str.__str__


@dataclass(frozen=True)
class Garbage:
    """One thing that goes as a whole."""

    path: str
    """Under the root; of what is ``STAGED`` the id of its handle."""
    reason: Reason
    files: int
    bytes: int
    is_folder: bool = False
    sink: str | None = None
    """Of what is staged: the sink's uid."""


@dataclass(frozen=True)
class JobGarbage:
    """Of one job."""

    job_id: str
    status: JobStatus | None = None
    """None: it has none yet, or its journal cannot be read."""
    epoch: int = 0
    garbage: tuple[Garbage, ...] = ()
    """What would be deleted; behind a deletion what was."""
    skipped: str | None = None
    """Why nothing, or not all of it, is deleted now: somebody runs the job, say."""
    problem: str | None = None
    """What could not be read, listed or deleted. Nothing of the job is deleted then, but what was before that."""
    left: tuple[str, ...] = ()
    """What was not looked at, and why."""

    @property
    def files(self) -> int:
        return sum(one.files for one in self.garbage)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.garbage)


@dataclass(frozen=True)
class StrangeFolder:
    """Something under a root that is no job, by its name. Never touched."""

    name: str
    what: str


def garbage_of(path: str, reason: Reason, sizes: Iterable[int], sink: str | None = None) -> Garbage:
    """A folder with files of so many bytes each."""
    found = list(sizes)
    return Garbage(path, reason, len(found), sum(found), is_folder=True, sink=sink)
