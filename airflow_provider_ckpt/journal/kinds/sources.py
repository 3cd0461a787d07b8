"""Events of bounded sources and input edges: the end is frozen, the end is reached, and a query leaves them out."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent, StatePart, listed_by
from airflow_provider_ckpt.model.file_status import ChangedFile
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Count, Instant

REMEMBERED = 20
"""Maximum number of reports of late files, and of changed files, in the state. They are for display."""


@dataclass
class Sources(StatePart):
    frozen: dict[str, SourceFrozen] = field(default_factory=dict, metadata=listed_by("uid"))
    ended: dict[str, dict[str, int]] = field(default_factory=dict)
    """Vertex → uid of an ended source or input edge → batch up to which all of it is published (R2)."""
    dropped: dict[str, dict[str, int]] = field(default_factory=dict)
    late_files: list[LateFilesFound] = field(default_factory=list)
    """The last reports of late files, oldest first."""
    forgotten_files: list[str] = field(default_factory=list, metadata=OMIT_EMPTY)
    """Missing files that sources need not read, because users asked for that, in the order of the requests."""
    changed_files: list[SourceFilesChanged] = field(default_factory=list, metadata=OMIT_EMPTY)
    """The last reports of changed files, oldest first."""
    changed_counts: dict[str, dict[str, int]] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Source → number of changed ``files``, and of unread ``bytes`` in these files, over all reports."""


@dataclass(frozen=True)
class SourceFrozen(JournalEvent):
    """The end of a bounded source, fixed for all attempts (R11).

    Args:
        path: Object in the job's folder with the source's files, offsets or splits; None if each query start takes a
            new end.
    """

    uid: str
    path: str | None
    count: Count
    at: Instant

    def apply(self, state: Sources) -> None:
        state.frozen[self.uid] = self


@dataclass(frozen=True)
class SourceEnded(JournalEvent):
    """A bounded source or input edge has ended: published batches up to ``batch_id`` contain all of it (R2)."""

    vertex: str
    uid: str
    batch_id: int
    at: Instant

    def apply(self, state: Sources) -> None:
        state.ended.setdefault(self.vertex, {})[self.uid] = self.batch_id


@dataclass(frozen=True)
class SourceDropped(JournalEvent):
    """From the next start on, the vertex's query leaves out an ended source or input edge."""

    vertex: str
    uid: str
    batch_id: int
    at: Instant

    def apply(self, state: Sources) -> None:
        state.dropped.setdefault(self.vertex, {})[self.uid] = self.batch_id


@dataclass(frozen=True)
class LateFilesFound(JournalEvent):
    """Files that appeared in a bounded source's folder after it was frozen.

    Args:
        paths: Paths of all late files, or only of the first ones.
        read: True if the files came before the source ended, so that the output has their rows.
        count: Number of files; None if ``paths`` has all of them.
    """

    uid: str
    paths: tuple[str, ...]
    read: bool
    at: Instant
    count: Count | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def total(self) -> int:
        return len(self.paths) if self.count is None else self.count

    @property
    def decides(self) -> bool:
        """Return False, because a later driver finds the files again."""
        return False

    def apply(self, state: Sources) -> None:
        state.late_files = [*state.late_files, self][-REMEMBERED:]


@dataclass(frozen=True)
class SourceFilesChanged(JournalEvent):
    """Report of files that changed after a source had read them.

    Args:
        files: The changed files, or only the first of them.
        count: Number of all changed files.
        unread: Lower bound of the number of bytes in these files that were not read.
    """

    uid: str
    files: tuple[ChangedFile, ...]
    count: Count
    unread: Count
    at: Instant

    @property
    def decides(self) -> bool:
        """Return False, because a later driver finds the files again."""
        return False

    def apply(self, state: Sources) -> None:
        before = state.changed_counts.get(self.uid, {"files": 0, "bytes": 0})
        counts = {"files": before["files"] + self.count, "bytes": before["bytes"] + self.unread}
        state.changed_counts = {**state.changed_counts, self.uid: counts}
        state.changed_files = [*state.changed_files, self][-REMEMBERED:]


@dataclass(frozen=True)
class FilesForgotten(JournalEvent):
    """A user has asked that sources do without ``files``, which are gone (``forget_files``)."""

    files: tuple[str, ...]
    at: Instant

    def apply(self, state: Sources) -> None:
        state.forgotten_files = [*state.forgotten_files, *self.files]
