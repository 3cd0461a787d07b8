"""The job event log: write buffer, replay, fencing, compaction.

1.  An epoch claim is an entry, made by create-if-absent; after it the log is listed again (R3). Claims are
    never deleted.
2.  Whoever meets an entry that it has not written or read is fenced: a later driver owns the job.
3.  An entry holds the events of one flush, all or none. Decisions are flushed at once, with all that was written
    before them; what decides nothing (``JournalEvent.decides``) waits for others, and may be lost with its driver.
4.  When an entry cannot be written the journal refuses everything after: no silent degradation.
5.  A damaged entry is reported by ``replay``, with the state of what lies before it, and stops ``claim``,
    also when it is the last one. On a sound storage an entry is whole or absent, so a damaged one was whole
    once, and may have held a decision that was carried out ("completed n", then released): going on
    without it could release twice. A person brings it back, or starts another job from a checkpoint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.journal.causes import cleaned
from airflow_provider_ckpt.journal.codec import decode_all, encode, release
from airflow_provider_ckpt.journal.errors import (
    CorruptJournalError,
    FencedError,
    JournalNotClaimedError,
    JournalUnwritableError,
)
from airflow_provider_ckpt.journal.events import EpochClaimed, Event, StateSnapshot
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.json_form import shown
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.append_log import AppendLog, Entry
from airflow_provider_ckpt.storage.errors import BelowHeadError, CorruptLogError, LostRaceError
from airflow_provider_ckpt.storage.layout import check_job_id, is_job_id, journal_path
from airflow_provider_ckpt.storage.refusal import UNREADABLE, described
from airflow_provider_ckpt.storage.storage import Storage

__all__ = ["Journal", "job_ids", "list_jobs"]


class Journal:
    """One job's journal, as its owner (after :meth:`claim`) or as a reader.

    ``storage`` is the checkpoint root. ``buffer_bytes`` and ``flush_interval`` (seconds) bound what is lost
    of events that are no decisions (FLIP-383). ``clock``: seconds that never go back. Not thread-safe, and without
    threads: the owner calls :meth:`tick`.
    """

    def __init__(
        self,
        storage: Storage,
        job_id: str,
        *,
        buffer_bytes: int = 1 << 20,
        flush_interval: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.job_id, self.root = check_job_id(job_id), storage.uri
        self._log = AppendLog(
            storage,
            journal_path(job_id),
            format="journal",
            keep=_takes_over,
            parse=decode_all,
            skip_kept=True,  # claims that the snapshot behind them has, one for each driver that there ever was
            watchful=True,
            begins_at_head=True,  # :meth:`compact` writes the snapshot first, and moves the head to it
        )
        self._buffer_bytes = buffer_bytes
        self._flush_interval = flush_interval
        self._clock = clock
        self._state = JobState(job_id)
        self._writer: str | None = None
        """Of the last entry that was read."""
        self._epoch: int | None = None
        self._buffer: list[str] = []
        self._buffered = 0
        self._due: float | None = None
        self._broken: CkptError | None = None
        self.predecessor: Worker | None = None
        """Where the driver lives whose epoch :meth:`claim` ended; None if there was none."""

    @property
    def state(self) -> JobState:
        """The fold of every event read and written so far, buffered ones included. Don't change it."""
        return self._state

    @property
    def epoch(self) -> int | None:
        """The epoch this journal claimed."""
        return self._epoch

    # ---- reading

    def replay(self) -> JobState:
        """Read the whole journal, writing nothing. A damaged journal gives the state before the damage, and
        says so in ``damage``. Raises UnknownEventError, NewerFormatError (upgrade)."""
        self._state, self._writer = JobState(self.job_id), None
        try:
            entries = self._log.load()
        except CorruptLogError as error:
            entries = error.data["intact"]
            self._state.damage.append(str(error))
        self._fold(entries)
        return self._state

    def refresh(self) -> JobState:
        """Read what was added since the last read (no list); a first call replays. For observers."""
        if self._state.damage or not self._log.loaded:
            return self.replay()
        try:
            self._fold(self._log.tail())
        except BelowHeadError:
            return self.replay()
        except CorruptLogError as error:
            self._fold(error.data["intact"])
            self._state.damage.append(str(error))
        return self._state

    def reread(self) -> JobState:
        """As :meth:`refresh`, of a journal that may be another one by now: the root of a job that has ended may be
        deleted, and made anew. A request more."""
        position, writer = self._state.position, self._writer
        state = self.refresh()
        try:  # behind the read: what was read goes on from that entry if it is there still
            is_same = writer is None or self._log.writer_of(position) == writer
        except CorruptLogError:
            is_same = False
        return state if is_same else self.replay()

    def _fold(self, entries: Iterable[Entry]) -> None:
        """An entry whose events do not fit the state is damage. Entries after it are not folded."""
        for entry in entries:
            try:
                for event in entry.value:
                    event.apply(self._state)
                if self._state.job_id != self.job_id:
                    raise ValueError(f"they are of job {shown(self._state.job_id)}")
            except UNREADABLE as error:
                problem = f"its events do not fit those before it ({described(error)})"
                self._state.damage.append(str(self._log.damaged(entry.number, problem)))
                self._state.job_id = self.job_id
                return
            self._state.position, self._writer = entry.number, entry.writer

    @property
    def is_compact(self) -> bool:
        """Whether nothing lies behind the snapshot with which it begins. Of what was read."""
        return self._log.head == self._log.next_number - 1

    @property
    def uncompacted(self) -> int:
        """Entries behind the snapshot with which it begins, or all of them. Of what was read and written."""
        return self._log.next_number - self._log.head - 1

    # ---- owning

    def claim(
        self,
        attempt: str,
        worker: Worker,
        now: float,
        admit: Callable[[JobState], None] = lambda state: None,
        *,
        releases_only: bool = False,
        deployment: int = 0,
        upgrades: int = 0,
    ) -> int:
        """Take the job over: append the next epoch, and return it. ``releases_only``, ``deployment``, ``upgrades``: see
        :class:`EpochClaimed`; the first is of who claims it to run nothing.

        ``worker`` says where this driver lives. ``admit`` is given the state that the claim will follow, and may
        raise: then nothing is written. Nobody can come in between: the claim is made by create-if-absent of the
        very next number, and asked again when that is taken. So what it decides is decided for good.
        Raises CorruptJournalError, FencedError (a still later driver has claimed meanwhile).
        """
        self._epoch, self._broken = None, None
        self._buffer, self._buffered, self._due = [], 0, None
        while True:
            if self.refresh().damage:
                raise CorruptJournalError(job_id=self.job_id, reason="; ".join(self._state.damage))
            admit(self._state)
            event = EpochClaimed(self._state.epoch + 1, attempt, worker, now, releases_only, deployment, upgrades)
            before = self._state.worker if self._state.epoch else None
            try:
                self._log.take_over(json.loads(_body([encode(event)])))
            except LostRaceError as lost:
                claimed = lost.data["entry"] is None
                if claimed and self.replay().epoch > event.epoch:
                    raise self._fence(event.epoch) from None
                continue  # somebody was faster, or the place we claimed had been truncated meanwhile
            event.apply(self._state)
            self._epoch, self.predecessor = event.epoch, before
            return event.epoch

    def write(self, event: Event) -> None:
        """Write an event: a decision, and all that was buffered before it, is durable on return. See :meth:`flush`
        for the errors; raises ValueError for a number that JSON does not have, and nothing is written."""
        self._refuse()
        event = cleaned(event)
        text = encode(event)
        event.apply(self._state)
        self._buffer.append(text)
        self._buffered += len(text)
        if self._due is None:
            self._due = self._clock() + self._flush_interval
        if event.decides or self._buffered >= self._buffer_bytes:
            self.flush()

    def flush(self) -> None:
        """Write the buffer as one entry.

        Raises FencedError, or JournalUnwritableError; either is raised again by every later call.
        """
        self._refuse()
        if self._buffer:
            texts, self._buffer, self._buffered, self._due = self._buffer, [], 0, None
            self._append(texts)

    def tick(self) -> None:
        """Flush what has waited for ``flush_interval``. Called every now and then by the owner's loop."""
        self._refuse()
        if self._due is not None and self._clock() >= self._due:
            self.flush()

    def check_fenced(self) -> None:
        """Raise FencedError, naming the winner, if a later driver owns the job (one request)."""
        self._refuse()
        if self._log.is_overtaken():
            raise self._fence(self._epoch or 0)

    def compact(self, now: float) -> None:
        """Write the state as one event and move the head of the log to it.

        Raises as :meth:`flush` does, and the storage's own errors if only the truncation failed: then the
        journal is whole and goes on, and the next compaction deletes the rest.
        """
        self.truncate(self.write_snapshot(now))

    def write_snapshot(self, now: float) -> int:
        """The first half of :meth:`compact`; returns the number of the entry."""
        self.flush()
        self._append([encode(StateSnapshot(self._state, now))])
        return self._log.next_number - 1

    def truncate(self, head: int) -> None:
        """The second half, which may run in another thread while this one goes on writing."""
        self._log.truncate(head)

    def _append(self, texts: list[str]) -> None:
        unwritable = JournalUnwritableError(job_id=self.job_id, reason="an entry was interrupted")
        self._broken = unwritable
        try:
            self._log.append_text(_body(texts))
        except (LostRaceError, BelowHeadError):
            raise self._fence(self._epoch or 0) from None
        except CkptError as error:
            self._broken = JournalUnwritableError(job_id=self.job_id, reason=str(error))
            raise self._broken from error
        self._broken = None

    def _refuse(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._epoch is None:
            raise JournalNotClaimedError(job_id=self.job_id)

    def _fence(self, own_epoch: int) -> FencedError:
        reader = JobState(self.job_id)
        try:
            reader = self.replay()
        except CkptError as error:
            reader.attempt = f"unknown: {error}"
        self._broken = FencedError(
            job_id=self.job_id,
            epoch=reader.epoch,
            attempt=reader.attempt,
            worker=str(reader.worker),
            own_epoch=own_epoch,
        )
        return self._broken


def list_jobs(storage: Storage) -> list[JobState]:
    """Return the state of every job under a checkpoint root. Any error of one job is in its ``damage``."""
    return [_state_of(storage, name) for name in job_ids(storage)]


def _state_of(storage: Storage, job_id: str) -> JobState:
    try:
        return Journal(storage, job_id).replay()
    except CkptError as error:
        return JobState(job_id, damage=[str(error)])
    except Exception as error:  # one job must not hide the others
        return JobState(job_id, damage=[f"its journal cannot be read: {described(error)}"])


def job_ids(storage: Storage) -> list[str]:
    """Return the id of every job under a checkpoint root; one LIST for each folder there. A folder that cannot be
    listed counts as a job: reading it tells what is wrong."""
    return [name for name in storage.list("") if is_job_id(name) and _may_be_job(storage, name)]


def _may_be_job(storage: Storage, name: str) -> bool:
    try:
        return bool(storage.list(journal_path(name)))
    except CkptError:
        return True


def _takes_over(entry: Entry) -> bool:
    return any(event["type"] == EpochClaimed.__name__ for event in entry.body["events"])


def _body(texts: list[str]) -> str:
    events = ",\n".join(texts)
    return f'{{"release": {json.dumps(release())}, "events": [\n{events}\n]}}'
