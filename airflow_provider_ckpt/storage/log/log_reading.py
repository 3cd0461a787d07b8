"""Reading of a whole append log, or of its entries before a damaged one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_provider_ckpt.storage.errors import CorruptLogError
from airflow_provider_ckpt.storage.log.log_files import LogFiles
from airflow_provider_ckpt.storage.log.log_listing import Entry, Listing, Run


@dataclass(frozen=True)
class WholeLog:
    """The entries of a log: kept entries below the head, then all later entries.

    If the log is damaged, ``damage`` names the first unreadable entry, and ``entries`` end before that entry.
    """

    listing: Listing
    entries: list[Entry]
    damage: CorruptLogError | None = None


def read_whole(files: LogFiles, *, skip_kept: bool = False, begins_at_head: bool = False) -> WholeLog:
    """List the folder, and read the entries in order. Start again if the log was truncated meanwhile.

    Args:
        skip_kept: True if entries below the head are only checked for existence, and not read.
        begins_at_head: True if a head record proves that an entry at the head exists.

    Raises NewerFormatError.
    """
    while True:
        whole = _read_listed(files, files.list(), skip_kept, begins_at_head)
        if whole is not None:
            return whole


def _read_listed(files: LogFiles, listing: Listing, skip_kept: bool, begins_at_head: bool) -> WholeLog | None:
    """Read the listed entries. Return None if the log was truncated meanwhile."""
    entries: list[Entry] = []
    missing_kept = _first_missing_kept(files, listing) if skip_kept else None
    if missing_kept is not None:
        return _missing_entry(files, listing, entries, missing_kept)
    gap = _first_missing(files, listing, begins_at_head)
    for run in listing.runs(skip_kept=skip_kept, end=listing.end if gap is None else gap):
        with _reading(files, listing, run) as reads:
            for number, read in reads:
                try:
                    entry = read()
                except CorruptLogError as error:
                    return _damaged_log(listing, entries, error)
                if entry is None:
                    return _missing_entry(files, listing, entries, number)
                entries.append(entry)
    return WholeLog(listing, entries) if gap is None else _missing_entry(files, listing, entries, gap)


def _first_missing(files: LogFiles, listing: Listing, begins_at_head: bool) -> int | None:
    """Return the first missing number from the head on; None if no entry is missing.

    An unlisted entry is checked again, because a slow list may show a later entry and not an earlier one. Foreign file
    names may have any number, so no list of all numbers is made.
    """
    listed = frozenset(listing.numbers)
    end = max(listing.end, listing.head + 1) if begins_at_head and listing.head_records else listing.end
    unlisted = (number for number in range(listing.head, end) if number not in listed)
    return next((number for number in unlisted if not files.exists(number)), None)


def _first_missing_kept(files: LogFiles, listing: Listing) -> int | None:
    """Return the number of the first kept entry that does not exist; None if all exist.

    A slow list may show the head of a concurrent truncation, but not a claim from shortly before.
    """
    unlisted = sorted({*listing.kept_below} - {*listing.numbers})
    return next((number for number in unlisted if not files.exists(number)), None)


_Read = Callable[[], Entry | None]


@contextmanager
def _reading(files: LogFiles, listing: Listing, run: Run) -> Iterator[Iterator[tuple[int, _Read]]]:
    """Yield an iterator of (entry number, function that reads the entry), in order.

    If the storage allows parallel requests, several entries are read in advance.
    """
    from_pack = None if run.pack is None else files.read_pack(run.pack)
    if from_pack is not None:
        yield ((number, functools.partial(from_pack, number)) for number in run.numbers)
        return
    read = lambda number: files.read(number, kept=number < listing.head)  # noqa: E731
    if files.requests_at_once == 1 or len(run.numbers) < 2:
        yield ((number, functools.partial(read, number)) for number in run.numbers)
        return
    pool = ThreadPoolExecutor(min(files.requests_at_once, len(run.numbers)), thread_name_prefix="ckpt-log")
    try:
        yield iter([(number, pool.submit(read, number).result) for number in run.numbers])
    finally:
        pool.shutdown(cancel_futures=True)


def _missing_entry(files: LogFiles, listing: Listing, intact: list[Entry], number: int) -> WholeLog | None:
    if files.has_moved(listing.head):
        return None
    evidence = "later entries are there" if number < listing.end else "a head record says that the log begins with it"
    return _damaged_log(listing, intact, files.corrupt(number, f"it is missing, though {evidence}"))


def _damaged_log(listing: Listing, intact: list[Entry], error: CorruptLogError) -> WholeLog:
    last = error.data["number"] == listing.end - 1
    return WholeLog(listing, intact, CorruptLogError(**{**error.data, "intact": intact, "last": last}))
