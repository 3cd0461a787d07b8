"""Packs of an append log: copies of consecutive entries, as many as fit well into one object.

With packs, two hundred requests read a log of a hundred thousand entries. Packs help on a local disk, too, where
opening a small file takes longer than reading it.

1. A pack is a copy. The entries remain, because their names reserve their numbers. If a pack is wrong or cannot be
   written, the entries are read instead.
2. An appender writes a pack of entries that it has appended or read. An entry is never changed, so any writer may write
   the pack at any time, even after another writer overtook it.
3. A listed pack does not replace a listed entry. A missing entry is damage even if a pack has a copy of it.
4. A storage may lose the end of a log and keep its packs (a live root was copied name by name, a bucket replicated).
   The numbers are then used again. So a pack is used only if its last entry has the same nonce as in the log.
"""

from __future__ import annotations

import contextlib

from airflow_provider_ckpt.storage.log.log_files import LogFiles
from airflow_provider_ckpt.storage.log.log_listing import Entry, Pack

MOST = 4_000_000
"""Maximum number of characters in a pack. A larger pack (batches with hundreds of files) is not written.

The limit exists because each log with a writer has an unfinished pack in memory, and is locked while a pack is written.
"""


class PackWriter:
    """Writer of a log's packs, not thread-safe. ``size``: number of entries in a :class:`Pack`; 0 for no packs.

    Its methods raise no error. A successful append calls them, and would seem to have failed if they raised an error.
    """

    def __init__(self, files: LogFiles, size: int) -> None:
        self._files, self._size = files, size
        self._lines: list[str] = []
        """Lines of the entries in the unfinished pack; empty if their total length is above :data:`MOST`."""
        self._length = 0
        self._end = 0

    def start(self, entries: list[Entry], end: int) -> None:
        """Start again after a load of the log. ``end``: number of the next entry."""
        self._clear()
        if self._size:
            for entry in entries:
                if entry.number >= end - end % self._size and not entry.kept:
                    self.note(entry)

    def note(self, entry: Entry) -> None:
        """Add the next entry of the log to the current pack. The entry may be of any writer."""
        if not self._size:
            return
        if entry.number % self._size == 0:
            self._clear()
        self._end = entry.number + 1
        if self._length <= MOST:
            with contextlib.suppress(Exception):
                self._lines.append(self._files.packed(entry))
                self._length += len(self._lines[-1])
        if self._length > MOST:
            self._lines = []

    def write(self) -> None:
        """Write the current pack if it is complete."""
        if self._size and len(self._lines) == self._size:
            lines, pack = self._lines, Pack(self._end - self._size, self._end - 1)
            self._clear()
            with contextlib.suppress(Exception):
                self._files.create_pack(pack, lines)

    def _clear(self) -> None:
        self._lines, self._length = [], 0
