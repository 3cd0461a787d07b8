"""Packs of an append log: copies of entries that follow each other, as many as fit one object well.

A log of a hundred thousand entries is read by them in two hundred requests; also on a local disk, where opening a small
file takes longer than reading it. The word is git's, whose objects are loose until they are packed.

1.  A pack is a copy. The entries stay where they are, as they hold their numbers; whatever is wrong with a pack, or
    with writing it, they are read instead.
2.  It is written by who appends, of entries that it has appended or read. An entry is never changed, so it does not
    matter who writes it, when, or whether that writer was overtaken by then.
3.  An entry counts only if it is listed itself: one that is gone is damage, though a pack has it.
4.  Where a storage has lost the end of a log and not its packs (a live root was copied name by name, a bucket
    replicated), the numbers are given again, to other entries. So a pack counts only if the last entry of it has the
    nonce that it has in the pack.
"""

from __future__ import annotations

import contextlib

from airflow_provider_ckpt.storage.log_files import LogFiles
from airflow_provider_ckpt.storage.log_listing import Entry, Pack

MOST = 4_000_000
"""Characters of a pack: it is in memory until it is full, for each log that somebody writes, and goes to the storage
while the log is locked. Entries that are larger, of batches with hundreds of files, stay loose."""


class PackWriter:
    """Of one log, for its writer. ``size``: entries in a pack; 0: none are written. Not thread-safe. Raises nothing,
    whatever goes wrong: the append before it has succeeded, and who is told otherwise appends the same again."""

    def __init__(self, files: LogFiles, size: int) -> None:
        self._files, self._size = files, size
        self._lines: list[str] = []
        """Of what was read or appended since the last number that a pack begins with; none if it was too much."""
        self._length = 0
        self._end = 0

    def start(self, entries: list[Entry], end: int) -> None:
        """The log was read anew: ``end`` is the next number."""
        self._forget()
        if self._size:
            for entry in entries:
                if entry.number >= end - end % self._size and not entry.kept:
                    self.note(entry)

    def note(self, entry: Entry) -> None:
        """The next entry is there, by whomever."""
        if not self._size:
            return
        if entry.number % self._size == 0:
            self._forget()
        self._end = entry.number + 1
        if self._length <= MOST:
            with contextlib.suppress(Exception):
                self._lines.append(self._files.packed(entry))
                self._length += len(self._lines[-1])
        if self._length > MOST:
            self._lines = []

    def write(self) -> None:
        """A pack, if the last entry noted is the last one of a pack, and those before it are known."""
        if self._size and len(self._lines) == self._size:
            lines, pack = self._lines, Pack(self._end - self._size, self._end - 1)
            self._forget()
            with contextlib.suppress(Exception):
                self._files.create_pack(pack, lines)

    def _forget(self) -> None:
        self._lines, self._length = [], 0
