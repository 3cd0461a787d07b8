"""The log of one subtask, for its one writer: the current attempt (R1, R3, R11).

Appends share one lock, so a barrier is always the fold of exactly what precedes it.
"""

from __future__ import annotations

import threading
from collections.abc import Container

from airflow_provider_ckpt.errors import CkptError, TransientError
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.split import Ranges, ranges, union
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.partitions.codec import record_to_json
from airflow_provider_ckpt.partitions.errors import (
    BatchConflictError,
    BatchGapError,
    EndedLogError,
    LaterTryError,
    LogFencedError,
    LogHeldError,
)
from airflow_provider_ckpt.partitions.log_state import (
    LogState,
    Numbered,
    fold,
    from_number,
    live,
    without_forgotten,
)
from airflow_provider_ckpt.partitions.records import (
    Barrier,
    Batch,
    EndMode,
    EndOfData,
    EndOfPartition,
    Open,
    Record,
)
from airflow_provider_ckpt.partitions.subtask_entries import PACK, numbered, subtask_entries
from airflow_provider_ckpt.storage.errors import LostRaceError
from airflow_provider_ckpt.storage.storage import Storage

FORGET_EVERY = 1000
"""Records in memory that are one more reason to ask where the log begins by now."""


class SubtaskLog:
    """``path`` is the folder of the log under the storage's root.

    Every method that appends raises LogFencedError when a later attempt has opened the log.

    Only a barrier may fail and be gone on without (its checkpoint is declined): whether it landed is found
    out before anything else is appended. After any other failed append the log takes no more.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.path = path
        self._log = subtask_entries(storage, path, pack=PACK)
        self._lock = threading.RLock()
        self._records: list[Numbered] = []
        self._ask_at = FORGET_EVERY
        self._broken: CkptError | None = None
        self._unsettled: Barrier | None = None
        """A barrier of which it is unknown whether it landed."""
        self.state = LogState()

    @property
    def position(self) -> int:
        """The number of the next entry."""
        return self._log.next_number

    @property
    def has_ended(self) -> bool:
        """End of data is in it."""
        return self.state.end_of_data is not None

    @property
    def is_broken(self) -> bool:
        """It takes no more from this attempt: it was fenced, or an append failed of which it is unknown whether it
        landed. Whoever met that first has been told."""
        return self._broken is not None

    def load(self) -> LogState:
        """Read the whole log; call once, before :meth:`open`."""
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
        """Claim the log for ``attempt``: from here on those before it cannot append. Its Spark folder has its name.

        Whoever wrote between our reading and our claim is read first, so the returned state is
        what this attempt continues from. ``continues_at``: see :class:`Open`. ``lost``: entries that are void, and with
        them whatever end the log has by then: what they were of is still to be read. Raises LogHeldError if the log is
        held by a later attempt, or by one of the same epoch and number: of two that are not in order neither takes the
        log from the other. Raises LaterTryError if a later try than ``supervised`` has opened it. ``unless_closed``: a
        log that was closed before the claim, by whoever was faster, stays as it is, and its state is returned: nothing
        is written behind the end of a partition.
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
                    # an earlier attempt was faster once more: what it published counts; a later one holds it now
                    self._remember(numbered(self._log.load()))
                    continue
                self._remember([*self._records, (number, record)])
                return self.state

    def _ends(self) -> list[int]:
        return [number for number, record in live(self._records) if isinstance(record, (EndOfData, EndOfPartition))]

    def publish(self, batch: Batch) -> int:
        """Append one micro-batch; the append is the micro-batch boundary (R1). Returns its position.

        A batch that is already there with equal offsets is a no-op; raises BatchConflictError when
        the offsets differ, BatchGapError when its id is below the last one, EndedLogError at the end. Ids rise, and
        need not be consecutive here (R21).
        """
        with self._lock:
            last = self.state.last_batch
            if last is not None and batch.batch_id == last.batch_id:
                if dict(batch.offsets) != dict(last.offsets):
                    raise BatchConflictError(
                        batch_id=batch.batch_id, log=self.path, published=last.offsets, offered=batch.offsets
                    )
                return self.state.last_batch_position
            if last is not None and batch.batch_id < last.batch_id:
                raise BatchGapError(batch_id=batch.batch_id, log=self.path, last=last.batch_id)
            return self._append(batch)

    def barrier(self, epoch: int, checkpoint: int) -> Snapshot:
        """Append barrier ``checkpoint``, or return the snapshot of the one that is already there.

        After a TransientError the caller may go on without this checkpoint: the next append settles whether the
        barrier landed, by appending it again. It is passed by readers, as that of any aborted checkpoint.
        """
        with self._lock:
            self._settle()  # before the fold is looked at: it is behind the log if the barrier before landed
            known = self.state.barriers.get((epoch, checkpoint))
            if known is not None:
                return known
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
        """Cheap; raises LogFencedError if somebody else appended behind us (R8)."""
        with self._lock:
            self._refuse_broken()
            if self._log.is_overtaken():
                self._read_on()
            elif len(self._records) >= self._ask_at:
                self._forget_truncated()

    def _forget_truncated(self) -> None:
        """Who truncates the log may be another process, which does not tell the writer."""
        self._log.check_head()
        self.forget(self._log.head, self._log.kept_now())
        self._ask_at = len(self._records) + FORGET_EVERY

    def records(self, start: int = 0) -> list[Numbered]:
        """The live records with number >= ``start``, in order."""
        with self._lock:
            return from_number(self._records, start)

    def forget(self, head: int, kept: Container[int]) -> None:
        """As :meth:`LogReader.forget`."""
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
            self._read_on()
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
        """Append the barrier that failed once more: the same entry lands once, whatever became of the first try.

        To look whether it is there would not do: a request that was given up may still be on its way, and whoever
        appended at that number meanwhile would find itself behind a barrier it does not know of.
        """
        if self._unsettled is not None:
            self._append_settled(self._unsettled)

    def _fold(self, number: int, record: Record) -> None:
        if record == self._unsettled:
            self._unsettled = None
        self._records.append((number, record))
        self.state.apply(record, number)

    def _refuse_broken(self) -> None:
        """After a defeat, or an append that failed: it may have landed, and the fold is behind the log then."""
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
            raise LaterTryError(log=self.path, attempt=opened.attempt, epoch=opened.epoch, own=supervised.number)
        if opened is not None and not opened.attempt < attempt:
            raise LogHeldError(log=self.path, attempt=opened.attempt, epoch=opened.epoch, own=attempt)

    def _read_on(self) -> None:
        """What was appended behind our back: a barrier of ours that failed and did land, or somebody's ``open``."""
        for number, record in numbered(self._log.tail()):
            if isinstance(record, Open):
                # for good: the entry was read, so that the next append would come after it, and succeed
                self._broken = LogFencedError(log=self.path, attempt=record.attempt, epoch=record.epoch)
                raise self._broken
            if record == self._unsettled:
                self._fold(number, record)

    def _remember(self, records: list[Numbered]) -> None:
        self._records, self._broken, self._unsettled = records, None, None
        self.state = fold(records)
