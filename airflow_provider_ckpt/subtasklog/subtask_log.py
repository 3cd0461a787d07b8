"""The log of one subtask, for its only writer: the current attempt (R1, R3, R11).

Appends share one lock, so a barrier always describes exactly the entries before it.
"""

from __future__ import annotations

import threading
from collections.abc import Container

from airflow_provider_ckpt.errors import CkptError, TransientError
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.split import Ranges, ranges, union
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.storage.errors import LostRaceError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.errors import BatchConflictError, EndedLogError, LogFencedError
from airflow_provider_ckpt.subtasklog.log_state import (
    LogState,
    Numbered,
    fold,
    from_number,
    live,
    without_forgotten,
)
from airflow_provider_ckpt.subtasklog.record_codec import PACK, numbered, record_to_json, subtask_entries
from airflow_provider_ckpt.subtasklog.records import (
    Barrier,
    Batch,
    EndMode,
    EndOfData,
    EndOfPartition,
    Open,
    Record,
)

FORGET_EVERY = 1000
"""Whenever the writer has this many more records in memory, it reads the log's head and drops truncated entries."""


class SubtaskLog:
    """The log of one subtask, for its writer. ``path`` is the log's folder under the storage's root.

    Every method that appends raises LogFencedError if a later attempt has opened the log. A failed barrier has no
    consequences: the next append finds out whether the barrier was written. After any other failed append the log
    accepts no more records.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.path = path
        self._log = subtask_entries(storage, path, pack=PACK)
        self._lock = threading.RLock()
        self._records: list[Numbered] = []
        self._check_head_at = FORGET_EVERY
        self._broken: CkptError | None = None
        self._unsettled: Barrier | None = None
        """A barrier whose append failed, so that it may or may not be in the log."""
        self.state = LogState()

    @property
    def position(self) -> int:
        """The number that the next appended entry gets."""
        return self._log.next_number

    @property
    def has_ended(self) -> bool:
        """True if the log has an end of data."""
        return self.state.end_of_data is not None

    @property
    def is_broken(self) -> bool:
        """True if this attempt can no longer append: it was fenced, or an append failed with an unknown result."""
        return self._broken is not None

    def load(self) -> LogState:
        """Read the whole log and return its state. Call this before :meth:`open`."""
        with self._lock:
            self._remember(numbered(self._log.load()))
            return self.state

    def open(
        self,
        attempt: AttemptId,
        continues_at: int | None = None,
        lost: Ranges = (),
        supervised: SupervisedTry | None = None,
        *,
        unless_closed: bool = False,
    ) -> LogState:
        """Claim the log for ``attempt``, so that earlier attempts can no longer append. Return the resulting state.

        The state includes entries that an earlier attempt appended just before the claim. The attempt's Spark
        folder has the attempt's name.

        Args:
            continues_at: Position at which the attempt resumes; None voids no entries (:class:`Open`).
            lost: Positions of entries whose files are lost. The Open makes them void, and also the ends of the log,
                because the lost input must be read again.
            supervised: The supervisor's try; None if the supervisor does not count its tries.
            unless_closed: True to leave a log unchanged that another attempt has closed meanwhile, and to return its
                state.

        Raises LogFencedError if an attempt with the same or a later epoch and number owns the log, or if a later try
        than ``supervised`` has opened it.
        """
        with self._lock:
            while True:
                self._refuse_held(attempt, supervised)
                if unless_closed and self.state.closed:
                    return self.state
                voids = union(lost, ranges(self._ends())) if lost else ()
                record = Open(attempt, attempt.epoch, str(attempt), continues_at, voids, supervised)
                try:
                    number = self._log.take_over(record_to_json(record)).number
                except LostRaceError:
                    # an earlier attempt appended first, and its entry counts; a later attempt may own the log now
                    self._remember(numbered(self._log.load()))
                    continue
                self._remember([*self._records, (number, record)])
                return self.state

    def _ends(self) -> list[int]:
        return [number for number, record in live(self._records) if isinstance(record, (EndOfData, EndOfPartition))]

    def append_batch(self, batch: Batch) -> int:
        """Append one micro-batch and return its position. The append is the micro-batch boundary (R1).

        A repeated batch with equal offsets is not appended again. Batch ids increase, but need not be consecutive
        (R21).

        Raises BatchConflictError if a repeated batch has other offsets or an id is below the last id, and EndedLogError
        after the end of data.
        """
        with self._lock:
            last = self.state.last_batch
            if last is not None and batch.batch_id == last.batch_id:
                if dict(batch.offsets) != dict(last.offsets):
                    raise BatchConflictError(
                        "batch {batch_id} of {log} is published with offsets {published}, and now came with "
                        "{offered}; the Spark checkpoint folder and the log disagree: go back to the last checkpoint "
                        "with --restore instead of resuming",
                        batch_id=batch.batch_id,
                        log=self.path,
                        published=last.offsets,
                        offered=batch.offsets,
                    )
                return self.state.last_batch_position
            if last is not None and batch.batch_id < last.batch_id:
                raise BatchConflictError(batch_id=batch.batch_id, log=self.path, last=last.batch_id)
            return self._append(batch)

    def barrier(self, epoch: int, checkpoint: int) -> Snapshot:
        """Append barrier ``checkpoint``, unless it is already in the log, and return its snapshot.

        After a TransientError the caller may continue without this checkpoint. The next append writes a missing barrier
        again. Readers ignore this barrier, like the barrier of any aborted checkpoint.
        """
        with self._lock:
            self._settle()  # before ``state`` is read, because ``state`` lags the log if the last barrier was written
            existing = self.state.barriers.get((epoch, checkpoint))
            if existing is not None:
                return existing
            snapshot = self.state.snapshot_at(self.position)
            self._append(Barrier(epoch, checkpoint, snapshot))
            return snapshot

    def end_of_data(self, mode: EndMode) -> None:
        with self._lock:
            if self.state.end_of_data is None:
                self._append(EndOfData(mode))

    def end_of_partition(self) -> None:
        with self._lock:
            if not self.state.closed:
                self._append(EndOfPartition())

    def check_fenced(self) -> None:
        """Raise LogFencedError if another attempt has opened the log (R8). This costs one request."""
        with self._lock:
            self._refuse_broken()
            if self._log.is_overtaken():
                self._read_new()
            elif len(self._records) >= self._check_head_at:
                self._forget_truncated()

    def _forget_truncated(self) -> None:
        """Drop truncated entries from memory. The JobMaster truncates the log without a message to its writer."""
        self._log.check_head()
        self.forget(self._log.head, self._log.kept_numbers())
        self._check_head_at = len(self._records) + FORGET_EVERY

    def records(self, start: int = 0) -> list[Numbered]:
        """Return the live records with number >= ``start``, in order."""
        with self._lock:
            return from_number(self._records, start)

    def forget(self, head: int, kept: Container[int]) -> None:
        with self._lock:
            self._records = without_forgotten(self._records, head, kept)
            self.state.forget(head)

    def _append(self, record: Record) -> int:
        self._settle()
        return self._append_settled(record)

    def _append_settled(self, record: Record) -> int:
        self._refuse_broken()
        self._refuse_after_end(record)
        try:
            number = self._log.append(record_to_json(record)).number
        except LostRaceError:
            self._read_new()
            raise
        except CkptError as error:
            if isinstance(error, TransientError) and isinstance(record, Barrier):
                self._unsettled = record
            else:
                self._broken = error
            raise
        self._fold(number, record)
        return number

    def _settle(self) -> None:
        """Append the failed barrier again. If the storage has the first entry, the log writes no second, equal entry.

        A read is not enough, because an abandoned request may still be in flight.
        """
        if self._unsettled is not None:
            self._append_settled(self._unsettled)

    def _fold(self, number: int, record: Record) -> None:
        if record == self._unsettled:
            self._unsettled = None
        self._records.append((number, record))
        self.state.apply(record, number)

    def _refuse_broken(self) -> None:
        """Raise the error of an earlier fenced or failed append again. Since then ``state`` may lag the log."""
        if self._broken is not None:
            raise self._broken

    def _refuse_after_end(self, record: Record) -> None:
        kind = type(record).__name__
        if self.state.closed:
            raise EndedLogError(log=self.path, end="end of partition", record=kind)
        if self.state.end_of_data is not None and isinstance(record, Batch):
            raise EndedLogError(log=self.path, end="end of data", record=kind)

    def _refuse_held(self, attempt: AttemptId, supervised: SupervisedTry | None) -> None:
        opened = self.state.opened
        if opened is not None and supervised is not None and self.state.has_later_try(supervised):
            raise LogFencedError(
                "{log} was opened by a later try (attempt {attempt} of epoch {epoch}) than number {own}, whose worker "
                "is fenced, and stops",
                log=self.path,
                attempt=opened.attempt,
                epoch=opened.epoch,
                own=supervised.number,
            )
        if opened is not None and not opened.attempt < attempt:
            raise LogFencedError(
                "{log} is held by attempt {attempt} of epoch {epoch}; {own} does not come after it, is fenced, and "
                "stops",
                log=self.path,
                attempt=opened.attempt,
                epoch=opened.epoch,
                own=attempt,
            )

    def _read_new(self) -> None:
        """Read new entries: this attempt's failed barrier, or an ``open`` of another attempt.

        Raises LogFencedError for such an ``open``.
        """
        for number, record in numbered(self._log.tail()):
            if isinstance(record, Open):
                # permanently, because after this entry was read the next append would come after it, and succeed
                self._broken = LogFencedError(log=self.path, attempt=record.attempt, epoch=record.epoch)
                raise self._broken
            if record == self._unsettled:
                self._fold(number, record)

    def _remember(self, records: list[Numbered]) -> None:
        self._records, self._broken, self._unsettled = records, None, None
        self.state = fold(records)
