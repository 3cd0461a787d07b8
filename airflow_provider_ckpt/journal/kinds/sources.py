"""Bounded sources, and input edges: their ends are fixed, reached, and left out."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent, StatePart, listed_by
from airflow_provider_ckpt.model.file_status import ChangedFile
from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.limits import Count, Instant

REMEMBERED = 20
"""So many of the last words on late files are remembered, for display."""


@dataclass
class Sources(StatePart):
    frozen: dict[str, SourceFrozen] = field(default_factory=dict, metadata=listed_by("uid"))
    ended: dict[str, dict[str, int]] = field(default_factory=dict)
    """Vertex -> source or edge uid -> the batch that covers it (R2)."""
    dropped: dict[str, dict[str, int]] = field(default_factory=dict)
    late_files: list[LateFilesFound] = field(default_factory=list)
    """The last ones that were told of, oldest first; of earlier releases all."""
    forgotten_files: list[str] = field(default_factory=list, metadata=LATER)
    """Files that somebody gave up, in order."""
    changed_files: list[SourceFilesChanged] = field(default_factory=list, metadata=LATER)
    """The last reports, oldest first."""
    changed_counts: dict[str, dict[str, int]] = field(default_factory=dict, metadata=LATER)
    """Source -> ``files`` and ``bytes`` of all reports."""


@dataclass(frozen=True)
class SourceFrozen(JournalEvent):
    """The end of a bounded source, once and for all attempts (R11). ``path`` is the object under the
    job's folder that lists the files; None for a source that cannot be given an end. ``watched``: whoever looks for
    late files at the end of a run leaves word of it; in earlier releases nobody does."""

    uid: str
    path: str | None
    count: Count
    at: Instant
    watched: bool = field(default=False, metadata=LATER)

    def apply(self, state: Sources) -> None:
        state.frozen[self.uid] = self


@dataclass(frozen=True)
class SourceEnded(JournalEvent):
    """A bounded inline source is covered by published batches up to ``batch_id`` (R2)."""

    vertex: str
    uid: str
    batch_id: int
    at: Instant

    def apply(self, state: Sources) -> None:
        state.ended.setdefault(self.vertex, {})[self.uid] = self.batch_id


@dataclass(frozen=True)
class SourceDropped(JournalEvent):
    """The next start of the vertex's query leaves the source (or ended edge) out."""

    vertex: str
    uid: str
    batch_id: int
    at: Instant

    def apply(self, state: Sources) -> None:
        state.dropped.setdefault(self.vertex, {})[self.uid] = self.batch_id


@dataclass(frozen=True)
class LateFilesFound(JournalEvent):
    """Files that turned up in a bounded source's folder after it was frozen. ``read``: whether they
    came before the source ended and so are in the output. ``count``: how many, if ``paths`` are the first of them.
    ``kept``: all of them are in a list beside the frozen one; of earlier releases they are here and nowhere else."""

    uid: str
    paths: tuple[str, ...]
    read: bool
    at: Instant
    count: Count | None = field(default=None, metadata=LATER)
    kept: bool = field(default=False, metadata=LATER)

    @property
    def total(self) -> int:
        return len(self.paths) if self.count is None else self.count

    @property
    def decides(self) -> bool:
        """A later driver finds them once more."""
        return False

    def apply(self, state: Sources) -> None:
        kept = [one for one in (*state.late_files, self) if one.kept]
        forgotten = kept[:-REMEMBERED]
        state.late_files = [one for one in (*state.late_files, self) if one not in forgotten]


@dataclass(frozen=True)
class SourceFilesChanged(JournalEvent):
    """Files of a source changed after they were read. ``files``: the first of them; ``count``: how many there are;
    ``unread``: bytes that were not read, as far as it is known."""

    uid: str
    files: tuple[ChangedFile, ...]
    count: Count
    unread: Count
    at: Instant

    @property
    def decides(self) -> bool:
        """A later driver finds them once more."""
        return False

    def apply(self, state: Sources) -> None:
        before = state.changed_counts.get(self.uid, {"files": 0, "bytes": 0})
        counts = {"files": before["files"] + self.count, "bytes": before["bytes"] + self.unread}
        state.changed_counts = {**state.changed_counts, self.uid: counts}
        state.changed_files = [*state.changed_files, self][-REMEMBERED:]


@dataclass(frozen=True)
class FilesForgotten(JournalEvent):
    """Somebody gave up files that a source still had to read, and that are gone (``forget_files``)."""

    files: tuple[str, ...]
    at: Instant

    def apply(self, state: Sources) -> None:
        state.forgotten_files = [*state.forgotten_files, *self.files]
