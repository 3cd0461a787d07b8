"""Which entries of an append log its head jumps over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from airflow_provider_ckpt.storage.log_files import LogFiles
from airflow_provider_ckpt.storage.log_listing import Entry, Listing

KeepRule = Callable[[Entry], bool]


class KeptEntries:
    """Remembers the entries that the log's own rule keeps as they are read, so that a truncation need not
    read them again; those before the first one read, or under another rule, it has to read."""

    # An entry that stays without the rule does so until the next truncation: that one says itself what is to stay.

    def __init__(self, files: LogFiles, rule: KeepRule | None) -> None:
        self._files = files
        self._rule = rule
        self._seen_from = 0
        self._kept: set[int] = set()
        self._passing: set[int] = set()
        """Below the head, and not by the rule."""

    def start(self, head: int, entries: Iterable[Entry]) -> None:
        """The log was read anew: ``entries`` are all from ``head`` on, and those kept below it."""
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
        """By the log's own rule, for ever."""
        return self._rule is not None and self._rule(entry)

    def below(
        self, head: int, listing: Listing, rule: KeepRule | None, besides: Collection[int] = ()
    ) -> tuple[int, ...]:
        """The numbers kept below ``head``; ``rule``: instead of the log's own; ``besides``: entries that stay until the
        next truncation, unless one that came in between has left them out. Raises CorruptLogError: an entry that
        has to be looked at is missing, and might be one to keep."""
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
