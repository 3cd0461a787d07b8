"""The entries of an append log that stay below its head."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from airflow_provider_ckpt.storage.log_files import LogFiles
from airflow_provider_ckpt.storage.log_listing import Entry, Listing

KeepRule = Callable[[Entry], bool]


class KeptEntries:
    """The entries that the log's own rule keeps.

    They are remembered when they are read, so that a truncation need not read them again.

    A truncation must read entries before the first one read, and all entries if it has another rule.
    """

    # An entry outside the rule stays only until the next truncation, which names its own.

    def __init__(self, files: LogFiles, rule: KeepRule | None) -> None:
        self._files = files
        self._rule = rule
        self._seen_from = 0
        self._kept: set[int] = set()
        self._passing: set[int] = set()
        """Entries below the head that stay only until the next truncation."""

    def start(self, head: int, entries: Iterable[Entry]) -> None:
        """Record that the log was loaded. ``entries`` are all from ``head`` on, and those kept below it."""
        self._seen_from = head
        self._kept.clear()
        self._passing.clear()
        for entry in entries:
            self.note(entry)

    def note(self, entry: Entry) -> None:
        if self.keeps(entry):
            self._kept.add(entry.number)
        elif entry.kept and self._rule is not None:
            self._passing.add(entry.number)

    def keeps(self, entry: Entry) -> bool:
        """Return whether the log's own rule keeps the entry for ever."""
        return self._rule is not None and self._rule(entry)

    def below(
        self, head: int, listing: Listing, rule: KeepRule | None, besides: Collection[int] = ()
    ) -> tuple[int, ...]:
        """Return the numbers that stay below ``head``.

        Args:
            head: the new head.
            listing: the current list of the folder.
            rule: a rule instead of the log's own.
            besides: entries that stay until the next truncation, unless a truncation in between has deleted them.

        Raises CorruptLogError if an entry is missing that must be checked and might be kept.
        """
        there = set(listing.kept)
        kept = there - self._passing
        kept |= {one for one in besides if one in there or listing.head <= one < head}
        for number in range(listing.head, head):
            if rule is None and number >= self._seen_from:
                keeps = number in self._kept
            else:
                keeps = self._is_kept(number, rule or self._rule)
            if keeps:
                kept.add(number)
        return tuple(sorted(kept))

    def _is_kept(self, number: int, rule: KeepRule | None) -> bool:
        if rule is None:
            return False
        entry = self._files.read(number)
        if entry is None and self._files.newest_head() <= number:
            raise self._files.corrupt(number, "it is missing, though later entries are there")
        return entry is not None and rule(entry)
