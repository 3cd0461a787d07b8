"""The files that a query has read, with their status when it read them. A producer may still write to such a file."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from airflow_provider_ckpt.model.file_status import ChangedFile, FileStatus
from airflow_provider_ckpt.sparkfiles.seen_files import shown_path, without_scheme

YOUNG = 120.0
"""A file that was modified within this many seconds before it was read is young: it may still change. Older files are
compared only when the run ends."""
FIRST_COMPARISON = 3.0
"""Seconds from reading a young file to the first comparison. Each later pause is twice as long, at most
``LAST_COMPARISON``."""
LAST_COMPARISON = 60.0
MOST_COMPARED = 100
"""Maximum number of files in one comparison while the query runs."""
MOST_WATCHED = 1_000
"""Maximum number of young files of a source that are compared during the run. Other files are compared at its end."""
KEPT = 100_000
"""Maximum number of files of a source whose status is remembered. The oldest files are forgotten first."""


@dataclass
class _Watched:
    due: float
    pause: float = FIRST_COMPARISON


@dataclass
class _Source:
    read: dict[str, FileStatus] = field(default_factory=dict)
    watched: dict[str, _Watched] = field(default_factory=dict)
    reported: dict[str, FileStatus] = field(default_factory=dict)


class ReadFiles:
    """The files that one attempt has read.

    It is not thread-safe: the caller holds the lock of the micro-batches. ``now`` is a time of ``time.monotonic``.
    """

    def __init__(self) -> None:
        self._sources: dict[str, _Source] = {}
        self._next_due = math.inf

    def add(self, uid: str, files: Iterable[FileStatus], now: float, wall: float) -> None:
        """Remember files that a published batch has read. ``wall`` is the current wall-clock time in epoch seconds."""
        source = self._sources.setdefault(uid, _Source())
        for file in files:
            key = key_of(file.path)
            source.read[key] = file
            if file.modified > (wall - YOUNG) * 1000 and len(source.watched) < MOST_WATCHED:
                source.watched[key] = _Watched(now + FIRST_COMPARISON)
                self._next_due = min(self._next_due, now + FIRST_COMPARISON)
        for key in list(islice(source.read, max(0, len(source.read) - KEPT))):
            del source.read[key]
            source.watched.pop(key, None)

    def is_due(self, now: float) -> bool:
        """Return True if a comparison is due. Callers may poll this."""
        return now >= self._next_due

    def due(self, now: float) -> dict[str, list[str]]:
        """Return source → paths that are due at ``now``, at most ``MOST_COMPARED`` in all.

        Double the pause of each path.
        """
        due_paths: dict[str, list[str]] = {}
        remaining = MOST_COMPARED
        for uid, source in self._sources.items():
            for key in [key for key, file in source.watched.items() if file.due <= now][:remaining]:
                due_paths.setdefault(uid, []).append(source.read[key].path)
                remaining -= 1
                watched = source.watched[key]
                watched.pause *= 2
                watched.due = now + watched.pause
                if watched.pause > LAST_COMPARISON:
                    del source.watched[key]
        watched_files = (file for source in self._sources.values() for file in source.watched.values())
        self._next_due = min((file.due for file in watched_files), default=math.inf)
        return due_paths

    def settles_at(self, uids: Collection[str]) -> float:
        """Return when the last young file of the sources ``uids`` is due for its first comparison; 0 if none waits."""
        sources = [source for uid, source in self._sources.items() if uid in uids]
        due_times = [
            file.due for source in sources for file in source.watched.values() if file.pause == FIRST_COMPARISON
        ]
        return max(due_times, default=0.0)

    def changed(
        self, uid: str, current: Iterable[FileStatus], planned: Mapping[str, int] | None = None
    ) -> list[ChangedFile]:
        """Return the files that have changed since they were read, or since their last report.

        Args:
            current: the current status of files. Files that were never read are ignored.
            planned: normal path → modification time when an earlier driver read the file; None if there was none.
        """
        source = self._sources.setdefault(uid, _Source())
        changed_files = []
        for file in current:
            key = key_of(file.path)
            read = source.reported.get(key) or source.read.get(key)
            if read is None:
                if planned is not None and planned.get(key, file.modified) != file.modified:
                    source.reported[key] = file
                    changed_files.append(ChangedFile(shown_path(file.path), None, file.size))
            elif (read.size, read.modified) != (file.size, file.modified):
                source.reported[key] = file
                changed_files.append(ChangedFile(shown_path(file.path), read.size, file.size))
        return changed_files


def key_of(path: str) -> str:
    """Return the normal path of ``path``: without scheme and leading slash. ``path`` must have no escapes."""
    return without_scheme(path).lstrip("/")
