"""An append log: numbered entries, each created only if it is absent (R3, R4, R17).

1. An entry is never changed. Entries from the head on are never deleted.
2. An appender creates only the number after the last entry that it has *read*. If the number is in use, another writer
   was faster. If that entry has the appender's own nonce, the append succeeded, and only its reply was lost.
3. A head record, ``head-<number>.json``, moves the head. It is created if absent, *before* the entries below it are
   deleted, in ascending order. The record with the highest number decides, so a late truncation by a paused writer
   cannot move the head back.
4. The head record lists the kept entries below it. These are all entries by which writers took the log over, because a
   paused writer tries exactly their numbers next. Entries that summarise deleted entries may also stay until the next
   record.
5. If the next entry of a reader was truncated, the reader fails, because a reader never skips entries. A deleted entry
   looks like an entry that is still not written. So the reader checks whether the last entry that it has read still
   exists (``watchful``), or where the head is.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

from airflow_provider_ckpt.errors import CkptError, TerminalError
from airflow_provider_ckpt.storage.errors import (
    AlreadyExistsError,
    BelowHeadError,
    CorruptLogError,
    LostRaceError,
    StorageTransientError,
)
from airflow_provider_ckpt.storage.log.log_files import LogFiles
from airflow_provider_ckpt.storage.log.log_listing import Entry, Listing
from airflow_provider_ckpt.storage.log.log_packs import PackWriter
from airflow_provider_ckpt.storage.log.log_reading import WholeLog, read_whole
from airflow_provider_ckpt.storage.storage import Storage

KeepRule = Callable[[Entry], bool]
__all__ = ["AppendLog", "Entry"]
_TRIES = 3
_HEAD_CHECK_INTERVAL = 16


class AppendLog:
    """An append log in the folder ``path`` of ``storage``. It is thread-safe.

    Every method may raise StorageTransientError and the other errors of the storage.

    Args:
        format: short name of the entries' format (``journal`` is written ``airflow-provider-ckpt/journal``).
        version: newest version of the format that this release can read.
        keep: returns True for an entry that truncations must not delete. A rule that is passed to :meth:`truncate`
            instead costs one more read of each entry.
        parse: converts a body that was read to :attr:`Entry.value`. If it raises DamagedFormError, the entry counts as
            damaged.
        pack: number of entries in a pack (:mod:`.log_packs`); 0 for no packs.
        skip_kept: True if entries below the head are not read.
        watchful: True if truncations do not wait for readers. Then each empty :meth:`tail` checks for a truncation,
            with one more request.
        begins_at_head: True if every truncation leaves an entry at the head. A missing entry at the head is then
            damage.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        *,
        format: str,  # noqa: A002 - the word of the file
        version: int = 1,
        keep: KeepRule | None = None,
        parse: Callable[[Any], Any] = lambda body: None,
        pack: int = 0,
        skip_kept: bool = False,
        watchful: bool = False,
        begins_at_head: bool = False,
    ) -> None:
        self._files = LogFiles(storage, path, format, version, parse)
        self._packs = PackWriter(self._files, pack)
        self._kept = KeptEntries(self._files, keep)
        self._lock = threading.RLock()
        self._loaded = False
        self._head = 0
        self._next = 0
        self._damage: CorruptLogError | None = None
        self._unsettled: dict[str, str] = {}
        """Nonce -> body of each append of this process at the next number. The append may have succeeded or failed."""
        self._empty_tails = 0
        self._is_cut_short = False
        self._skip_kept, self._is_watchful, self._begins_at_head = skip_kept, watchful, begins_at_head
        self._witness: int | None = None
        """Number of the last read entry that truncations may delete; None if no such entry was read.

        While this entry exists, no later entry is deleted, because truncations delete in ascending order.
        """

    @property
    def uri(self) -> str:
        return self._files.uri

    @property
    def loaded(self) -> bool:
        """True if the log was loaded. Then :meth:`tail` returns only new entries."""
        return self._loaded

    @property
    def next_number(self) -> int:
        """Number of the next entry, one more than the last entry that was read. Loads the log if necessary."""
        with self._lock:
            self._ensure_loaded()
            return self._next

    @property
    def head(self) -> int:
        """Number from which on no entry is truncated, as of the last read. Loads the log if necessary."""
        with self._lock:
            self._ensure_loaded()
            return self._head

    # ---- reading

    def load(self) -> list[Entry]:
        """List the folder, and return the entries in order: kept entries below the head, then all later entries.

        With ``skip_kept``, the entries below the head are left out.

        Raises NewerFormatError, and CorruptLogError, whose ``data["intact"]`` has the entries before the damage.
        Appends raise the same CorruptLogError until a load succeeds.
        """
        with self._lock:
            whole = read_whole(self._files, skip_kept=self._skip_kept, begins_at_head=self._begins_at_head)
            self._restart_from(whole)
            if whole.damage is not None:
                raise whole.damage
            return whole.entries

    def tail(self) -> list[Entry]:
        """Return the entries after the last one read; all entries if the log is not loaded.

        The next numbers are read until one is absent, and the folder is not listed. An empty call returns no entry. The
        first empty call in a row, and then each sixteenth, also checks whether the head has passed this reader. A
        ``watchful`` log does so in each empty call.

        If an error of the storage follows entries that were read, the next call raises it, and this call returns the
        entries. Until then :attr:`is_cut_short` is True.

        Raises BelowHeadError, and CorruptLogError, whose ``data["intact"]`` has the entries before the damage.
        """
        with self._lock:
            self._is_cut_short = False
            if not self._loaded:
                return self.load()
            self._refuse_damaged()
            entries: list[Entry] = []
            while (entry := self._read_next_or_cut_short(entries)) is not None:
                self._advance(entry)
                entries.append(entry)
            if entries:
                self._empty_tails = 0
            else:
                if self._may_be_below_head():
                    self.check_head()
                self._empty_tails += 1
            return entries

    @property
    def is_cut_short(self) -> bool:
        """True if the last :meth:`tail` has postponed an error, so that more entries may exist."""
        return self._is_cut_short

    def _may_be_below_head(self) -> bool:
        if self._is_watchful:
            return self._witness is None or not self._files.exists(self._witness)
        return self._empty_tails % _HEAD_CHECK_INTERVAL == 0

    def _read_next_or_cut_short(self, entries: list[Entry]) -> Entry | None:
        try:
            return self._read_next(entries)
        except CorruptLogError:
            raise
        except CkptError:
            if not entries:
                raise
            self._is_cut_short = True
            return None

    def _read_next(self, entries: list[Entry]) -> Entry | None:
        try:
            return self._files.read(self._next)
        except CorruptLogError as error:
            last = not self._files.exists(self._next + 1)
            self._damage = CorruptLogError(**{**error.data, "intact": entries, "last": last})
            raise self._damage from error

    def check_head(self) -> None:
        """Check that the log was not truncated beyond the next entry to read (two requests).

        Raises BelowHeadError if it was, and CorruptLogError if the last entry read is gone without a truncation.
        """
        with self._lock:
            self._ensure_loaded()
            head = self._files.head_above(self._next - 1)
            if head is None:
                reason = "it was read before and is gone, like what followed it"
                self._damage = self._files.corrupt(self._next - 1, reason)
                raise self._damage
            if head > self._next:
                raise BelowHeadError(uri=self.uri, next_number=self._next, head=head)
            self._head = max(self._head, head)

    def is_overtaken(self) -> bool:
        """Return whether another writer has written the next number (one request).

        After :meth:`take_over`, a writer needs no other check for a later writer. Raises the error of a storage that
        cannot answer.
        """
        with self._lock:
            self._ensure_loaded()
            return self._files.exists(self._next)

    def writer_of(self, number: int) -> str | None:
        """Return the nonce of an entry's writer, read from the storage (one request); None if the entry is absent."""
        entry = self._files.read(number)
        return None if entry is None else entry.writer

    def damaged(self, number: int, reason: str) -> CorruptLogError:
        """Return the error for an entry that was read but cannot be used."""
        return self._files.corrupt(number, reason)

    # ---- writing

    def append(self, body: Any) -> Entry:
        """Append a JSON value at the number after the last entry read.

        After a StorageTransientError, the entry may or may not be written. Another call with the same body finds that
        out, and never writes the body twice.

        Raises LostRaceError if another writer has used that number.
        """
        return self.append_text(json.dumps(body, allow_nan=False))

    def append_text(self, body: str) -> Entry:
        """Append a body that is already JSON text, like :meth:`append`."""
        with self._lock:
            self._ensure_loaded()
            self._refuse_damaged()
            while True:
                entry = self._create(body)
                if entry.writer not in self._unsettled:
                    uri = self._files.entry_uri(entry.number)
                    raise LostRaceError(uri=uri, writer=entry.writer, entry=entry)
                has_landed = self._unsettled[entry.writer] == body
                self._advance(entry)
                self._packs.write()
                if has_landed:
                    return entry
                # An earlier append that seemed to fail has succeeded, with another body. Append after that entry.

    def _create(self, body: str) -> Entry:
        """Create an entry at the next number. Return the new entry, or the entry of a faster writer."""
        number = self._next
        writer = next((nonce for nonce, text in self._unsettled.items() if text == body), None)
        writer = writer or secrets.token_hex(8)
        self._unsettled[writer] = body
        for attempt in range(_TRIES):
            try:
                self._files.create(number, writer, body)
                return Entry(number, writer, json.loads(body))
            except AlreadyExistsError:
                break
            except StorageTransientError:
                if attempt == _TRIES - 1:
                    raise
        entry = self._read_next([])
        if entry is None:
            raise BelowHeadError(uri=self.uri, next_number=number, head=self._files.newest_head())
        return entry

    def take_over(self, body: Any) -> Entry:
        """Append the first entry of a writer (``open``, an epoch claim), and then list the folder again (R3).

        The list is needed because the number may have been truncated while the writer was paused. ``keep`` must select
        the entry, so that no truncation deletes it.

        Raises LostRaceError like :meth:`append`. Also raises it, with ``data["entry"]`` None, if the new entry is not
        the last one. Then the caller must load the log again.
        """
        with self._lock:
            entry = self.append(body)
            listing = self._files.list()
            if listing.end != entry.number + 1 or listing.head > entry.number:
                self._loaded = False
                if listing.end <= entry.number:
                    raise self._files.corrupt(entry.number, "it was written just now, but no list shows it")
                uri = self._files.entry_uri(listing.end - 1)
                raise LostRaceError(uri=uri, writer="a later writer", entry=None)
            return entry

    # ---- truncation

    def truncate(self, head: int, keep: KeepRule | None = None, besides: Collection[int] = ()) -> frozenset[int]:
        """Move the head up to ``head`` and delete the entries below. Return the numbers below the head that stay.

        If the head is already at ``head`` or above, it stays. A crash may leave entries below the head, which no reader
        reads. The next call deletes them.

        Args:
            keep: returns True for an entry that must not be deleted; None for the log's own rule.
            besides: numbers of entries that must stay until the next truncation.

        Raises TerminalError if ``head`` is beyond the entries read.
        """
        with self._lock:
            self._ensure_loaded()
            self._refuse_damaged()
            if head > self._next:
                raise TerminalError(
                    "{uri} cannot be truncated up to {head}: its entries end before {next_number}",
                    uri=self.uri,
                    head=head,
                    next_number=self._next,
                )
            listing = self._files.list()
            if head > listing.head:
                kept = self._kept.below(head, listing, keep, besides)
                if self._files.write_head(head, kept):
                    listing = replace(listing, head=head, kept=kept, head_records=(*listing.head_records, head))
                else:
                    listing = self._files.list()  # the existing record decides what is kept
            self._head = max(self._head, listing.head)
        # without the lock, because a thousand deletions in an object store take a minute and writers must not wait
        self._files.delete_below_head(listing)
        return frozenset(listing.kept_below)

    def kept_numbers(self) -> frozenset[int]:
        """Return the numbers of the entries below the current head that truncations have kept (two requests)."""
        return frozenset(self._files.list().kept_below)

    # ---- bookkeeping

    def _ensure_loaded(self) -> None:
        if not self._loaded:
            self.load()

    def _refuse_damaged(self) -> None:
        if self._damage is not None:
            raise self._damage

    def _restart_from(self, whole: WholeLog) -> None:
        head = whole.listing.head
        self._loaded, self._damage, self._head = True, whole.damage, head
        self._next = max((head, *(entry.number + 1 for entry in whole.entries if not entry.kept)))
        self._kept.start(head, whole.entries)
        self._witness = None
        for entry in whole.entries:
            self._update_witness(entry)
        self._packs.start(whole.entries, self._next)
        self._unsettled.clear()
        self._empty_tails = 0

    def _advance(self, entry: Entry) -> None:
        self._next = entry.number + 1
        self._unsettled.clear()
        self._kept.note(entry)
        self._packs.note(entry)
        self._update_witness(entry)

    def _update_witness(self, entry: Entry) -> None:
        if not entry.kept and not self._kept.keeps(entry):
            self._witness = entry.number


class KeptEntries:
    """The numbers of the entries that the log's own rule keeps, as far as this process has read the entries.

    A truncation reads the entries that were not read before. With a rule of its own, a truncation reads all entries.
    """

    # Other entries below the head stay only until the next truncation, whose head record lists what it keeps.

    def __init__(self, files: LogFiles, rule: KeepRule | None) -> None:
        self._files = files
        self._rule = rule
        self._read_from = 0
        self._kept: set[int] = set()
        self._temporary: set[int] = set()
        """Numbers of entries below the head that stay only until the next truncation."""

    def start(self, head: int, entries: Iterable[Entry]) -> None:
        """Start again after a load. ``entries``: all entries from ``head`` on, and the kept entries below it."""
        self._read_from = head
        self._kept.clear()
        self._temporary.clear()
        for entry in entries:
            self.note(entry)

    def note(self, entry: Entry) -> None:
        if self.keeps(entry):
            self._kept.add(entry.number)
        elif entry.kept and self._rule is not None:
            self._temporary.add(entry.number)

    def keeps(self, entry: Entry) -> bool:
        """Return whether the log's own rule keeps the entry for ever."""
        return self._rule is not None and self._rule(entry)

    def below(
        self, head: int, listing: Listing, rule: KeepRule | None, besides: Collection[int] = ()
    ) -> tuple[int, ...]:
        """Return the numbers of the entries that stay below ``head``. ``rule``: None for the log's own rule.

        Entries of ``besides`` stay until the next truncation, if they still exist.

        Raises CorruptLogError if an entry is missing that the rule must check.
        """
        present = set(listing.kept)
        kept = present - self._temporary
        kept |= {number for number in besides if number in present or listing.head <= number < head}
        for number in range(listing.head, head):
            if rule is None and number >= self._read_from:
                is_kept = number in self._kept
            else:
                is_kept = self._is_kept(number, rule or self._rule)
            if is_kept:
                kept.add(number)
        return tuple(sorted(kept))

    def _is_kept(self, number: int, rule: KeepRule | None) -> bool:
        if rule is None:
            return False
        entry = self._files.read(number)
        if entry is None and self._files.newest_head() <= number:
            raise self._files.corrupt(number, "it is missing, though later entries are there")
        return entry is not None and rule(entry)
