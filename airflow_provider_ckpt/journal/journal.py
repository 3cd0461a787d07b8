"""The job event log: write buffer, replay, fencing, compaction, and the clean-up of texts in events.

1. An epoch claim is an entry that is created only if it is absent. After it the log is listed again (R3). Claims are
   never deleted.
2. A driver is fenced when it finds an entry that it has neither written nor read. Such an entry is from a later driver.
3. An entry contains all events of one flush, or does not exist. An event that decides something is flushed at once,
   with all events before it. Any other event waits in the buffer (``JournalEvent.decides``), and is lost if the driver
   dies.
4. If an entry cannot be written, the journal refuses all later writes.
5. A damaged entry stops ``claim``, even if it is the last entry. ``replay`` returns the state before the entry, and
   describes the damage. A damaged entry was intact earlier, because sound storage has no partial entries. A driver may
   have acted on its events ("completed n", then released). A driver that skips them could release twice. A person must
   restore the entry from a backup, or start another job from a checkpoint.

Causes and reasons in events are cleaned of secrets, because Spark, libraries or the user's code may have written them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from airflow_provider_ckpt.errors import CkptError, TerminalError
from airflow_provider_ckpt.journal.errors import CorruptJournalError, FencedError, JournalUnwritableError
from airflow_provider_ckpt.journal.event_codec import decode_all, encode, release
from airflow_provider_ckpt.journal.events import EpochClaimed, Event, StateSnapshot
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.json_form import shown
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.printable import without_colours
from airflow_provider_ckpt.storage.errors import BelowHeadError, CorruptLogError, LostRaceError
from airflow_provider_ckpt.storage.layout import check_job_id, is_job_id, journal_path
from airflow_provider_ckpt.storage.log.append_log import AppendLog, Entry
from airflow_provider_ckpt.storage.redaction import redact_given
from airflow_provider_ckpt.storage.refusal import UNREADABLE, described
from airflow_provider_ckpt.storage.storage import Storage

__all__ = ["Journal", "job_ids", "list_jobs"]


class Journal:
    """The journal of one job, for its owner (after :meth:`claim`) or a reader.

    The journal is not thread-safe and has no threads: the owner calls :meth:`tick`. ``buffer_bytes`` and
    ``flush_interval`` (in seconds) limit how many events that decide nothing can be lost (FLIP-383).
    ``clock`` returns seconds, and never goes back.
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
            keep=_is_claim,
            parse=decode_all,
            skip_kept=True,  # kept claims, one for each driver that ever ran, are in the snapshot after them
            watchful=True,
            begins_at_head=True,  # :meth:`compact` writes the snapshot first, and moves the head to it
        )
        self._buffer_bytes = buffer_bytes
        self._flush_interval = flush_interval
        self._clock = clock
        self._state = JobState(job_id)
        self._writer: str | None = None
        """Writer of the last entry that was read; None before the first."""
        self._epoch: int | None = None
        self._buffer: list[str] = []
        self._buffered = 0
        self._due: float | None = None
        self._broken: CkptError | None = None
        self.predecessor: Worker | None = None
        """The process of the driver whose epoch :meth:`claim` ended; None if no driver had the job before."""

    @property
    def state(self) -> JobState:
        """The state after all events that this object has read, written or buffered. Callers must not change it."""
        return self._state

    @property
    def epoch(self) -> int | None:
        """The epoch that this journal has claimed; None before :meth:`claim`."""
        return self._epoch

    # ---- reading

    def replay(self) -> JobState:
        """Read the whole journal and return the state. Stop at a damaged entry, and describe it in ``JobState.damage``.

        Raises UnknownEventError or NewerFormatError if a newer version of this library wrote the journal.
        """
        self._state, self._writer = JobState(self.job_id), None
        try:
            entries = self._log.load()
        except CorruptLogError as error:
            entries = error.data["intact"]
            self._state.damage.append(str(error))
        self._fold(entries)
        return self._state

    def refresh(self) -> JobState:
        """Read the entries added since the last read, without a LIST, and return the state.

        The first call replays the whole journal. So does a call after damage, or if unread entries were truncated.
        """
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
        """Return the state like :meth:`refresh`, but replay if another journal has replaced this one.

        This costs one request more than :meth:`refresh`.
        """
        position, writer = self._state.position, self._writer
        state = self.refresh()
        try:  # checked after the read, which continued the known journal only if that entry still exists
            is_same = writer is None or self._log.writer_of(position) == writer
        except CorruptLogError:
            is_same = False
        return state if is_same else self.replay()

    def _fold(self, entries: Iterable[Entry]) -> None:
        """Apply the events of ``entries`` to the state.

        If the events of an entry do not fit the state, record damage and stop.
        """
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
        """True if the last entry that was read is the snapshot at the head of the log."""
        return self._log.head == self._log.next_number - 1

    @property
    def uncompacted(self) -> int:
        """How many entries were read after the snapshot at the head; without a snapshot, how many entries were read."""
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
        """Take the job over: append a claim of the next epoch, and return that epoch.

        ``admit`` is called with the state. An error that it raises refuses the claim, and is passed on. No entry can
        come between the accepted state and the claim: if another writer is faster, ``admit`` is called with the new
        state.

        Args:
            attempt: Name of the caller's run, for the journal.
            now: Epoch seconds.
            releases_only: True if the caller runs no query. :class:`EpochClaimed` explains this argument,
                ``deployment`` and ``upgrades``.

        Raises CorruptJournalError, and FencedError if a later driver has claimed the job directly after this claim.
        """
        self._epoch, self._broken = None, None
        self._buffer, self._buffered, self._due = [], 0, None
        while True:
            if self.refresh().damage:
                raise CorruptJournalError(job_id=self.job_id, reason="; ".join(self._state.damage))
            admit(self._state)
            event = EpochClaimed(self._state.epoch + 1, attempt, worker, now, releases_only, deployment, upgrades)
            predecessor = self._state.worker if self._state.epoch else None
            try:
                self._log.take_over(json.loads(_body([encode(event)])))
            except LostRaceError as lost:
                claimed = lost.data["entry"] is None
                if claimed and self.replay().epoch > event.epoch:
                    raise self._fence(event.epoch) from None
                continue  # another writer was faster, or the claimed number had been truncated meanwhile
            event.apply(self._state)
            self._epoch, self.predecessor = event.epoch, predecessor
            return event.epoch

    def write(self, event: Event) -> None:
        """Write an event. If the event ``decides``, it is durable on return, with all events buffered before it.

        Raises the errors of :meth:`flush`, and ValueError for a number that JSON does not have (NaN, infinity).
        """
        self._check_writable()
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
        """Write the buffered events as one entry. Do nothing if there are none.

        Raises FencedError or JournalUnwritableError. Every later write raises the same error again.
        """
        self._check_writable()
        if self._buffer:
            texts, self._buffer, self._buffered, self._due = self._buffer, [], 0, None
            self._append(texts)

    def tick(self) -> None:
        """Flush the buffer if it has waited for ``flush_interval``. The owner's loop calls this regularly."""
        self._check_writable()
        if self._due is not None and self._clock() >= self._due:
            self.flush()

    def check_fenced(self) -> None:
        """Check, with one request, whether a later driver owns the job.

        Raises FencedError, which names that driver.
        """
        self._check_writable()
        if self._log.is_overtaken():
            raise self._fence(self._epoch or 0)

    def compact(self, now: float) -> None:
        """Write the state as one event, and move the head of the log to its entry. Older entries are deleted.

        Raises the errors of :meth:`flush`, and the storage's errors if only the deletion failed. The journal is then
        intact, and the next compaction deletes the old entries.
        """
        self.truncate(self.write_snapshot(now))

    def write_snapshot(self, now: float) -> int:
        """Write the state as one event, the first half of :meth:`compact`. Return the number of its entry."""
        self.flush()
        self._append([encode(StateSnapshot(self._state, now))])
        return self._log.next_number - 1

    def truncate(self, head: int) -> None:
        """Move the head of the log to entry ``head``, the second half of :meth:`compact`. Any thread may call this."""
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

    def _check_writable(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._epoch is None:
            raise TerminalError(
                "the journal of job {job_id} was not claimed: nothing can be written to it before claim()",
                job_id=self.job_id,
            )

    def _fence(self, own_epoch: int) -> FencedError:
        successor = JobState(self.job_id)
        try:
            successor = self.replay()
        except CkptError as error:
            successor.attempt = f"unknown: {error}"
        self._broken = FencedError(
            job_id=self.job_id,
            epoch=successor.epoch,
            attempt=successor.attempt,
            worker=str(successor.worker),
            own_epoch=own_epoch,
        )
        return self._broken


def list_jobs(storage: Storage) -> list[JobState]:
    """Return the state of each job under a checkpoint root. ``JobState.damage`` says why a journal cannot be read."""
    return [_state_of(storage, name) for name in job_ids(storage)]


def _state_of(storage: Storage, job_id: str) -> JobState:
    try:
        return Journal(storage, job_id).replay()
    except CkptError as error:
        return JobState(job_id, damage=[str(error)])
    except Exception as error:  # one job must not hide the others
        return JobState(job_id, damage=[f"its journal cannot be read: {described(error)}"])


def job_ids(storage: Storage) -> list[str]:
    """Return the id of every job under a checkpoint root. A folder that cannot be listed counts as a job."""
    return [name for name in storage.list("") if is_job_id(name) and _may_be_job(storage, name)]


def _may_be_job(storage: Storage, name: str) -> bool:
    try:
        return bool(storage.list(journal_path(name)))
    except CkptError:
        return True


def _is_claim(entry: Entry) -> bool:
    return any(event["type"] == EpochClaimed.__name__ for event in entry.body["events"])


def _body(texts: list[str]) -> str:
    events = ",\n".join(texts)
    return f'{{"release": {json.dumps(release())}, "events": [\n{events}\n]}}'


_TEXTS = ("cause", "reason", "why")


def cleaned(event: Event) -> Event:
    """Return the event without this driver's secrets, passwords in URIs and terminal colours in its texts."""
    texts = {name: text for name in _TEXTS if isinstance(text := getattr(event, name, None), str)}
    cleaned_texts = {name: without_colours(redact_given(text)) for name, text in texts.items()}
    if cleaned_texts == texts:
        return event
    changed: Event = replace(event, **cleaned_texts)  # type: ignore[arg-type]
    return changed
