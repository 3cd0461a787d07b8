"""Reading an append log as a whole, or up to where it is damaged."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_provider_ckpt.storage.errors import CorruptLogError
from airflow_provider_ckpt.storage.log_files import LogFiles
from airflow_provider_ckpt.storage.log_listing import Entry, Listing, Run


@dataclass(frozen=True)
class WholeLog:
    """``entries``: the kept ones below the head, then all from the head on. If there is ``damage``, it names
    the entry that they end before."""

    listing: Listing
    entries: list[Entry]
    damage: CorruptLogError | None = None


def read_whole(files: LogFiles, *, skip_kept: bool = False, begins_at_head: bool = False) -> WholeLog:
    """List once, then read in order; once more if the log was truncated meanwhile. ``skip_kept``: of the entries that
    stay below the head it is enough that they are there. ``begins_at_head``: a head record proves that there is an
    entry at the head. Raises NewerFormatError."""
    while True:
        whole = _read_listed(files, files.list(), skip_kept, begins_at_head)
        if whole is not None:
            return whole


def _read_listed(files: LogFiles, listing: Listing, skip_kept: bool, begins_at_head: bool) -> WholeLog | None:
    """None: the log was truncated meanwhile."""
    entries: list[Entry] = []
    lost = _lost(files, listing) if skip_kept else None
    if lost is not None:
        return _missing(files, listing, entries, lost)
    gap = _gap(files, listing, begins_at_head)
    for run in listing.runs(skip_kept=skip_kept, end=listing.end if gap is None else gap):
        with _reading(files, listing, run) as reads:
            for number, read in reads:
                try:
                    entry = read()
                except CorruptLogError as error:
                    return _damaged(listing, entries, error)
                if entry is None:
                    return _missing(files, listing, entries, number)
                entries.append(entry)
    return WholeLog(listing, entries) if gap is None else _missing(files, listing, entries, gap)


def _gap(files: LogFiles, listing: Listing, begins_at_head: bool) -> int | None:
    """Return the first number from the head on that has no entry, if there must be one.

    A list that lasted for long may show the second of two entries and not the first. The name of a foreign file may
    hold any number, so no list of all numbers is made.
    """
    listed = frozenset(listing.numbers)
    end = max(listing.end, listing.head + 1) if begins_at_head and listing.head_records else listing.end
    unlisted = (number for number in range(listing.head, end) if number not in listed)
    return next((number for number in unlisted if not files.exists(number)), None)


def _lost(files: LogFiles, listing: Listing) -> int | None:
    """The first of the kept entries that is not there. A list that lasted for long may show the head that a truncation
    has moved meanwhile, and not a claim that came shortly before it."""
    unlisted = sorted({*listing.kept_below} - {*listing.numbers})
    return next((number for number in unlisted if not files.exists(number)), None)


_Read = Callable[[], Entry | None]


@contextmanager
def _reading(files: LogFiles, listing: Listing, run: Run) -> Iterator[Iterator[tuple[int, _Read]]]:
    """Of each entry, in order, how to get it: several are read ahead where an answer takes time."""
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


def _missing(files: LogFiles, listing: Listing, intact: list[Entry], number: int) -> WholeLog | None:
    if files.has_moved(listing.head):
        return None
    shown = "later entries are there" if number < listing.end else "a head record says that the log begins with it"
    return _damaged(listing, intact, files.corrupt(number, f"it is missing, though {shown}"))


def _damaged(listing: Listing, intact: list[Entry], error: CorruptLogError) -> WholeLog:
    last = error.data["number"] == listing.end - 1
    return WholeLog(listing, intact, CorruptLogError(**{**error.data, "intact": intact, "last": last}))
