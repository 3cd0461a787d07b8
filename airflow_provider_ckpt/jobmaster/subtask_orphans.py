"""What attempts that are over have left of a subtask, by the name of who left it (R5). Nobody's claim is needed for it.

A driver may claim the job at any moment, and nothing that it can need is in the answer, whenever it comes:

1.  The newest attempt that has opened the log, and has its Spark folder complete, is where every later one goes on
    from (R8). So what is over is what it follows in the log, and no attempt can go back to that: neither one that is
    paused (its appends are refused, R3), nor one that is yet to come. Without a complete folder a later attempt goes on
    from an earlier one, and nothing is over.
2.  What an attempt before has staged can be published still if Spark had committed it (R1): its prepared record says
    so, and was there before the folder was complete. So the records are read behind the look for the folder, and the
    log once more behind them: who publishes deletes the record behind its entry, and one of the two shows what is
    named.
3.  An entry that is void, or truncated, never counts again (R3, R4).
4.  Everything has the name of its attempt, which nobody has a second time (R5): what is yet to come is another name.

In batch mode, and of a source with splits, there is no Spark folder, and nothing is prepared: an attempt that the log
shows to be followed is over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from airflow_provider_ckpt.jobmaster.garbage import Garbage, Reason
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.log_reader import TailingLogReader
from airflow_provider_ckpt.partitions.log_state import LogState, Numbered, fold
from airflow_provider_ckpt.partitions.prepared_store import Prepared, PreparedStore
from airflow_provider_ckpt.partitions.records import Batch, Open
from airflow_provider_ckpt.sinks.sink import attempt_of
from airflow_provider_ckpt.sparkfiles.attempt_folders import published_last
from airflow_provider_ckpt.storage.layout import prepared_path, subtask_log_path, subtask_path
from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.storage.storage import Storage

_FEED = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
Order = tuple[int, int]
"""Epoch and number of an attempt."""


@dataclass(frozen=True)
class SubtaskLook:
    """What a subtask has, at one moment. Paths are relative to its folder."""

    subtask: SubtaskId
    home: str
    reader: TailingLogReader
    files: Sizes
    records: list[Numbered] = field(default_factory=list)
    prepared: tuple[Prepared, ...] = ()
    newest: AttemptId | None = None
    """The last attempt that has opened the log, if it is complete: every later one goes on from it."""

    @property
    def opened(self) -> tuple[AttemptId, ...]:
        return tuple(one.attempt for _, one in self.records if isinstance(one, Open))

    @property
    def state(self) -> LogState:
        return fold(self.records)

    @property
    def over(self) -> frozenset[AttemptId]:
        """Those that can publish nothing any more, and that nobody goes on from."""
        if self.newest is None:
            return frozenset()
        return frozenset(self.opened if self.state.closed else self.opened[:-1])

    @property
    def publishable(self) -> tuple[Prepared, ...]:
        """What is prepared and may still be published. What has the number of a batch that is, or a lower one, may not:
        a later attempt publishes a prepared batch if it is the one behind the last."""
        last = self.state.last_batch
        done = -1 if last is None else last.batch_id
        return tuple(one for one in self.prepared if one.attempt not in self.over or one.batch_id > done)

    @property
    def named_folders(self) -> frozenset[str]:
        """Of data files that live entries name, or batches that may still be published."""
        return frozenset(file.folder for one in self._named() for file in one.files)

    @property
    def named_handles(self) -> frozenset[str]:
        """The ids of handles, likewise."""
        return frozenset(str(handle["id"]) for one in self._named() for handle in one.handles.values())

    def _named(self) -> Iterator[Batch | Prepared]:
        yield from (one for _, one in self.records if isinstance(one, Batch))
        yield from self.publishable


def look_at_subtask(storage: Storage, job_id: str, subtask: SubtaskId, *, has_folder: bool) -> SubtaskLook:
    """``has_folder``: it is a query of Spark's, whose attempts go on from folders. Reads only; the order of what is
    read is that of the module's docstring. Raises CorruptLogError, PreparedLostError, and the storage's errors."""
    home = subtask_path(job_id, subtask.vertex, subtask.number)
    reader = TailingLogReader(storage, subtask_log_path(job_id, subtask.vertex, subtask.number))
    newest = _last_open(reader.records())
    if newest is not None and has_folder and not storage.exists(f"{home}/spark/{newest}.json"):
        newest = None
    prepared = PreparedStore(storage, prepared_path(job_id, subtask.vertex, subtask.number)).read_all()
    files = storage.files(home)
    records = reader.records()
    if newest is not None and _last_open(records) != newest:
        newest = None  # somebody is about to take it over
    return SubtaskLook(subtask, home, reader, files, records, tuple(prepared), newest)


def _last_open(records: list[Numbered]) -> AttemptId | None:
    return next((one.attempt for _, one in reversed(records) if isinstance(one, Open)), None)


def orphans(look: SubtaskLook) -> Iterator[Garbage]:
    """Of a subtask that the job has. Feeds are their consumer's: see :func:`old_feeds`."""
    over, named = look.over, look.named_folders
    gone_on = published_last(look.records)
    kept = {one.attempt for one in look.publishable}
    for unit in _units(look.files):
        part = unit.path.partition("/")[0]
        if unit.attempt not in over:
            continue
        if part == "spark":
            unneeded = unit.attempt not in (gone_on, look.newest)
        elif part == "prepared":
            unneeded = unit.attempt not in kept
        else:  # a copy in scratch is read by its own batch only, one for a trial by its own attempt
            unneeded = part in ("scratch", "trial") or unit.name not in named
        if unneeded:
            yield unit.garbage(look.home, Reason.ATTEMPT)


def old_feeds(look: SubtaskLook, path: str, before: Order) -> Iterator[Garbage]:
    """``look``: at the producer. ``path``: of the edge's feeds, below its folder; ``before``: the newest attempt of the
    consumer, which is complete: every later one takes up its feed, if that has begun."""
    feeds = [unit for unit in _units(look.files) if unit.feed is not None and unit.path.startswith(f"{path}/feeds/")]
    if before in {unit.feed for unit in feeds}:
        for unit in feeds:
            if unit.feed is not None and unit.feed < before:
                yield unit.garbage(look.home, Reason.FEED)


def given_up(look: SubtaskLook, epoch: int) -> Iterator[Garbage]:
    """Of a subtask of which nothing counts any more, whatever its log says. ``epoch``: of the state that says so. If
    the operator comes back, then in a later one, and with nothing of this."""
    for unit in _until(look.files, look.opened, epoch):
        yield unit.garbage(look.home, Reason.OPERATOR)


def left_by_finished(
    home: str, files: Sizes, opened: Iterable[AttemptId], epoch: int, *, is_read: bool
) -> Iterator[Garbage]:
    """Return what a finished subtask no longer needs: its Spark folders, prepared records and copies.

    The last completed checkpoint covers the end of the subtask, and no restore starts the subtask again (R6, R7).

    Args:
        home: The subtask's folder.
        files: The files in it.
        opened: The attempts in the subtask's log.
        epoch: The epoch of the state that says so. If the operator is removed and comes back, then in a later one.
        is_read: Every reader has finished too. The data of the partition and its feeds go then.
    """
    for unit in _until(files, opened, epoch):
        if is_read or not unit.path.startswith("partition/"):
            yield unit.garbage(home, Reason.SUBTASK)


def _until(files: Sizes, opened: Iterable[AttemptId], epoch: int) -> Iterator[_Unit]:
    """Yield what the attempts of ``opened`` up to ``epoch`` wrote, and what attempts up to ``epoch`` were fed."""
    known = {one for one in opened if one.epoch <= epoch}
    for unit in _units(files):
        if unit.attempt in known or (unit.feed is not None and unit.feed[0] <= epoch):
            yield unit


@dataclass(frozen=True)
class _Unit:
    """What goes as a whole, of one attempt; ``feed``: the consumer's, whose nonce its name does not have."""

    path: str
    attempt: AttemptId | None
    sizes: tuple[int, ...]
    is_folder: bool = True
    feed: Order | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def garbage(self, home: str, reason: Reason) -> Garbage:
        return Garbage(f"{home}/{self.path}", reason, len(self.sizes), sum(self.sizes), self.is_folder)


def _units(files: Sizes) -> Iterator[_Unit]:
    """Markers of Spark folders and prepared records first: no half-deleted folder is chosen. What has no such name is
    nobody's that could be told, and is in none."""
    found = [(unit, size) for path, size in files if (unit := _unit_of(path.split("/"))) is not None]
    found.sort(key=lambda one: (one[0].is_folder, one[0].path))
    for path, of_unit in groupby(found, key=lambda one: one[0].path):
        members = list(of_unit)
        first = members[0][0]
        yield _Unit(path, first.attempt, tuple(size for _, size in members), first.is_folder, first.feed)


def _unit_of(parts: list[str]) -> _Unit | None:
    if parts[0] in ("spark", "prepared") and len(parts) == 2:
        return _of_attempt(parts, AttemptId.find(parts[1].removesuffix(".json")), is_folder=False)
    if parts[0] == "spark":
        return _of_attempt(parts[:2], AttemptId.find(parts[1]))
    if parts[0] == "scratch" and len(parts) > 2:
        return _of_attempt(parts[:2], _staged_by(parts[1]))
    if parts[0] == "trial" and len(parts) > 2:
        return _of_attempt(parts[:2], AttemptId.find(parts[1].rpartition("-")[0]))
    if parts[0] != "partition" or len(parts) < 4:
        return None
    if parts[-3] == "data":
        return _of_attempt(parts[:-1], _staged_by(parts[-2]))
    feed = _FEED.fullmatch(parts[-3])
    if feed is None or parts[-4] != "feeds" or parts[-2] != "_spark_metadata":
        return None
    return _Unit("/".join(parts[:-2]), None, (), feed=(int(feed[1]), int(feed[2] or 0)))


def _of_attempt(parts: list[str], attempt: AttemptId | None, *, is_folder: bool = True) -> _Unit | None:
    return None if attempt is None else _Unit("/".join(parts), attempt, (), is_folder)


def _staged_by(name: str) -> AttemptId | None:
    """``<attempt>-<batch>-<nonce>``, as outputs are named."""
    return AttemptId.find(attempt_of(name) or "")
