"""Search for leftovers of attempts that are over: staged output in sinks, and files of a subtask (R5).

Each leftover is identified by the attempt in its name. The search needs no claim. A driver may claim the job at any
moment, and never needs anything that the search returns:

1. Every later attempt continues from the newest attempt that has opened the log and has a complete Spark folder (R8).
   So all attempts before it in the log are over, and cannot append (R3). If the newest attempt has no complete folder,
   a later attempt continues from an earlier attempt, and then no attempt is over.
2. Staged output of an earlier attempt can still be published if Spark had committed it (R1). Its prepared record was
   written before the folder was complete. So the search reads the records after it has found the folder, and then the
   log again. A task deletes the record after it has appended the entry, so the record or the log names the output.
3. A void or truncated entry never counts again (R3, R4).
4. Every name contains its attempt, and no two attempts have the same name (R5). So future output has other names.

Batch mode and sources with splits have no Spark folders and no prepared records. There an attempt is over if the log
shows a later one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from airflow_provider_ckpt.jobmaster.retention.garbage import Garbage, Reason, garbage_of
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.sinks.sink import BoundSink, attempt_of
from airflow_provider_ckpt.sparkfiles.attempt_folders import last_publisher
from airflow_provider_ckpt.storage.layout import prepared_path, subtask_log_path, subtask_path
from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader
from airflow_provider_ckpt.subtasklog.log_state import LogState, Numbered, fold
from airflow_provider_ckpt.subtasklog.prepared_store import Prepared, PreparedStore
from airflow_provider_ckpt.subtasklog.records import Batch, Open


def staged_orphans(sinks: Mapping[str, BoundSink], over: Collection[str], named: Collection[str]) -> Iterator[Garbage]:
    """Yield the staged output of attempts that are over, except batches in ``named``, which may still be released.

    Staged output of unknown attempts stays, because a job of the same id under another root may stage in the same
    target.
    """
    for uid, sink in sinks.items():
        for name, sizes in sorted((sink.staged() or {}).items()):
            if attempt_of(name) in over and name not in named:
                yield garbage_of(name, Reason.STAGED, sizes, sink=uid)


_FEED = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
Order = tuple[int, int]
"""(epoch, number) of an attempt."""


@dataclass(frozen=True)
class SubtaskFiles:
    """The files and records of a subtask at one moment. Paths are relative to the subtask's folder."""

    subtask: SubtaskId
    home: str
    reader: TailingLogReader
    files: Sizes
    records: list[Numbered] = field(default_factory=list)
    prepared: tuple[Prepared, ...] = ()
    newest: AttemptId | None = None
    """The last attempt that has opened the log, if its Spark folder is complete, else None. Every later attempt
    continues from this attempt."""

    @property
    def opened(self) -> tuple[AttemptId, ...]:
        return tuple(record.attempt for _, record in self.records if isinstance(record, Open))

    @property
    def state(self) -> LogState:
        return fold(self.records)

    @property
    def over(self) -> frozenset[AttemptId]:
        """The attempts that can no longer publish, and from which no attempt continues."""
        if self.newest is None:
            return frozenset()
        return frozenset(self.opened if self.state.closed else self.opened[:-1])

    @property
    def publishable(self) -> tuple[Prepared, ...]:
        """The prepared batches that may still be published: all except published batches of attempts that are over."""
        last = self.state.last_batch
        last_published = -1 if last is None else last.batch_id
        return tuple(
            batch for batch in self.prepared if batch.attempt not in self.over or batch.batch_id > last_published
        )

    @property
    def named_folders(self) -> frozenset[str]:
        """Names of the data folders to which live log entries or publishable batches refer."""
        return frozenset(file.folder for batch in self._live_batches() for file in batch.files)

    @property
    def named_handles(self) -> frozenset[str]:
        """Ids of the staged batches to which live log entries or publishable batches refer."""
        return frozenset(str(handle["id"]) for batch in self._live_batches() for handle in batch.handles.values())

    def _live_batches(self) -> Iterator[Batch | Prepared]:
        yield from (record for _, record in self.records if isinstance(record, Batch))
        yield from self.publishable


def read_subtask_files(storage: Storage, job_id: str, subtask: SubtaskId, *, has_folder: bool) -> SubtaskFiles:
    """Read the files and records of a subtask, in the order that the module's docstring requires.

    ``has_folder`` is True if the subtask runs a Spark query, whose attempts continue from Spark folders.

    Raises CorruptLogError, PreparedLostError, and the storage's errors.
    """
    home = subtask_path(job_id, subtask.vertex, subtask.number)
    reader = TailingLogReader(storage, subtask_log_path(job_id, subtask.vertex, subtask.number))
    newest = _last_open(reader.records())
    if newest is not None and has_folder and not storage.exists(f"{home}/spark/{newest}.json"):
        newest = None
    prepared = PreparedStore(storage, prepared_path(job_id, subtask.vertex, subtask.number)).read_all()
    files = storage.files(home)
    records = reader.records()
    if newest is not None and _last_open(records) != newest:
        newest = None  # a new driver is taking the subtask over
    return SubtaskFiles(subtask, home, reader, files, records, tuple(prepared), newest)


def _last_open(records: list[Numbered]) -> AttemptId | None:
    return next((record.attempt for _, record in reversed(records) if isinstance(record, Open)), None)


def orphans(subtask_files: SubtaskFiles) -> Iterator[Garbage]:
    """Yield the leftovers of a subtask in the job's graph, except feeds (:func:`old_feeds`)."""
    over, named = subtask_files.over, subtask_files.named_folders
    publisher = last_publisher(subtask_files.records)
    kept_attempts = {batch.attempt for batch in subtask_files.publishable}
    for unit in _units(subtask_files.files):
        part = unit.path.partition("/")[0]
        if unit.attempt not in over:
            continue
        if part == "spark":
            unneeded = unit.attempt not in (publisher, subtask_files.newest)
        elif part == "prepared":
            unneeded = unit.attempt not in kept_attempts
        else:  # only its own batch reads a copy in scratch, and only its own attempt reads a copy in trial
            unneeded = part in ("scratch", "trial") or unit.name not in named
        if unneeded:
            yield unit.garbage(subtask_files.home, Reason.ATTEMPT)


def old_feeds(producer: SubtaskFiles, path: str, before: Order) -> Iterator[Garbage]:
    """Yield feeds in ``path`` of a consumer's attempts before ``before``, which is the consumer's newest attempt.

    Every later attempt continues the feed of the newest attempt, so nothing is yielded if that feed does not exist.
    """
    feeds = [
        unit for unit in _units(producer.files) if unit.feed is not None and unit.path.startswith(f"{path}/feeds/")
    ]
    if before in {unit.feed for unit in feeds}:
        for unit in feeds:
            if unit.feed is not None and unit.feed < before:
                yield unit.garbage(producer.home, Reason.FEED)


def abandoned(subtask_files: SubtaskFiles, epoch: int) -> Iterator[Garbage]:
    """Yield the files, of epochs up to ``epoch``, of a subtask whose log entries no longer count.

    An operator that comes back in a later epoch needs none of these files.
    """
    for unit in _units_until(subtask_files.files, subtask_files.opened, epoch):
        yield unit.garbage(subtask_files.home, Reason.OPERATOR)


def left_by_finished(
    home: str, files: Sizes, opened: Iterable[AttemptId], epoch: int, *, is_read: bool
) -> Iterator[Garbage]:
    """Yield files that a finished subtask no longer needs: its Spark folders, prepared records and copies.

    The last completed checkpoint covers the end of the subtask, and no restore starts the subtask again (R6, R7). Files
    of epochs after ``epoch`` are left out, because a removed operator may come back. ``is_read`` is True if every
    reader has finished, so that the partition's data and feeds are yielded, too.
    """
    for unit in _units_until(files, opened, epoch):
        if is_read or not unit.path.startswith("partition/"):
            yield unit.garbage(home, Reason.SUBTASK)


def _units_until(files: Sizes, opened: Iterable[AttemptId], epoch: int) -> Iterator[_Unit]:
    """Yield the units of the attempts in ``opened`` up to ``epoch``, and the feeds of all attempts up to ``epoch``."""
    attempts = {attempt for attempt in opened if attempt.epoch <= epoch}
    for unit in _units(files):
        if unit.attempt in attempts or (unit.feed is not None and unit.feed[0] <= epoch):
            yield unit


@dataclass(frozen=True)
class _Unit:
    """Files of one attempt that are deleted as a whole. A ``feed`` has epoch and number of its consumer's attempt."""

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
    """Group files into units. Files without the name of an attempt belong to no unit.

    Markers of Spark folders and prepared records come first, so that no driver chooses a half-deleted folder.
    """
    sized_units = [(unit, size) for path, size in files if (unit := _unit_of(path.split("/"))) is not None]
    sized_units.sort(key=lambda pair: (pair[0].is_folder, pair[0].path))
    for path, of_unit in groupby(sized_units, key=lambda pair: pair[0].path):
        members = list(of_unit)
        first = members[0][0]
        yield _Unit(path, first.attempt, tuple(size for _, size in members), first.is_folder, first.feed)


def _unit_of(parts: list[str]) -> _Unit | None:
    if parts[0] in ("spark", "prepared") and len(parts) == 2:
        return _attempt_unit(parts, AttemptId.find(parts[1].removesuffix(".json")), is_folder=False)
    if parts[0] == "spark":
        return _attempt_unit(parts[:2], AttemptId.find(parts[1]))
    if parts[0] == "scratch" and len(parts) > 2:
        return _attempt_unit(parts[:2], _staging_attempt(parts[1]))
    if parts[0] == "trial" and len(parts) > 2:
        return _attempt_unit(parts[:2], AttemptId.find(parts[1].rpartition("-")[0]))
    if parts[0] != "partition" or len(parts) < 4:
        return None
    if parts[-3] == "data":
        return _attempt_unit(parts[:-1], _staging_attempt(parts[-2]))
    feed = _FEED.fullmatch(parts[-3])
    if feed is None or parts[-4] != "feeds" or parts[-2] != "_spark_metadata":
        return None
    return _Unit("/".join(parts[:-2]), None, (), feed=(int(feed[1]), int(feed[2] or 0)))


def _attempt_unit(parts: list[str], attempt: AttemptId | None, *, is_folder: bool = True) -> _Unit | None:
    return None if attempt is None else _Unit("/".join(parts), attempt, (), is_folder)


def _staging_attempt(name: str) -> AttemptId | None:
    return AttemptId.find(attempt_of(name) or "")
