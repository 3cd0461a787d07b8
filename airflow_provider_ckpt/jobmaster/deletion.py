"""Deletes a job that is over (R16): all it has under the root, and what it has staged. Never what it released.

1.  Claim the journal, as who runs nothing: whoever had the job writes no more. The terms are asked of the very state
    that the claim follows.
2.  ``DeletionBegun`` is the commit point. Before it nothing is deleted, and a driver that claims the job goes on with
    it. Behind it every driver and every release is refused, and only another deletion claims the job.
3.  What is staged in the targets of the sinks goes, and everything of its own in the job's folder but the journal, in
    any order: nobody reads it any more. The journal still tells the sinks, and whose attempts have staged.
4.  ``JobDeleted``: nothing is left. A snapshot of the little that is known still, to which the journal is truncated. It
    stays for ever.

A deletion that dies anywhere, or is overtaken by another one, is completed by the next. An overtaken one may go on
deleting whenever it likes: nobody writes under this id again, so there is nothing that it could take from anybody. The
claims stay in the journal as they always do: the driver that sleeps longest finds its number taken (R3).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.errors import OvertakenError
from airflow_provider_ckpt.jobmaster.deletion_terms import DeletionTerms
from airflow_provider_ckpt.jobmaster.errors import StagedOutputLeftError
from airflow_provider_ckpt.jobmaster.log_checks import check_journal
from airflow_provider_ckpt.jobmaster.opened_attempts import opened_attempts
from airflow_provider_ckpt.journal.events import DeletionBegun, JobDeleted
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import ckpt_command
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.partitions.attempts import AllAttemptsBut
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.storage.layout import PARTS, job_path
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.storage import Storage

_DELETE = "~delete"
SinksOf = Callable[[JobState], Mapping[str, BoundSink]]


@dataclass(frozen=True)
class DeletedJob:
    """What a deletion found, and deleted. One that was interrupted before has deleted the rest."""

    job_id: str
    was: JobStatus | None
    """The job's status before; None: it had none yet."""
    already: bool = False
    """It was deleted before, and nothing was left to delete."""
    files: int = 0
    """Under the root, without the journal."""
    bytes: int = 0
    staged: Mapping[str, int] = field(default_factory=dict)
    """Sink uid -> how many staged batches were deleted in its target."""
    left: tuple[str, ...] = ()
    """Sinks in whose targets nothing was looked for: ``keep_staged``, or nothing tells how to reach them."""


class JobDeletion:
    """Use once: :meth:`run`. ``storage``: of the root; ``sinks_of``: those of the job that can be reached, asked before
    anything is written."""

    def __init__(self, storage: Storage, job_id: str, terms: DeletionTerms, sinks_of: SinksOf) -> None:
        self._storage, self._job_id = storage, job_id
        self._terms, self._sinks_of = terms, sinks_of
        self._sinks: Mapping[str, BoundSink] = {}
        self._left: tuple[str, ...] = ()
        self._home = job_path(job_id)

    def run(self) -> DeletedJob:
        """Raises JobNotOverError, UnreleasedOutputError, PersistedResultsError, CorruptJournalError, FencedError,
        StagedOutputLeftError, and the storage's errors: after each of them it may be asked for again."""
        journal = Journal(self._storage, self._job_id)
        state = journal.refresh()
        check_journal(self._storage, state)
        self._admit(state)
        if self._is_done(journal):
            journal.truncate(journal.state.position)  # the last one may have died before it had
            return DeletedJob(self._job_id, _was(state), already=True)
        journal.claim(_attempt(state), Worker(), time.time(), self._admit, releases_only=True)
        return self._delete(journal)

    def _admit(self, state: JobState) -> None:
        self._terms.check(state, self._storage.uri)
        wanted = () if state.plan is None else state.graph().vertices
        uids = {uid for vertex in wanted for uid in vertex.sinks}
        self._sinks = {} if self._terms.keep_staged else self._sinks_of(state)
        self._left = tuple(sorted(uids - self._sinks.keys()))

    def _is_done(self, journal: Journal) -> bool:
        done = journal.state.status is JobStatus.DELETED and journal.is_compact
        return done and not self._parts()

    def _delete(self, journal: Journal) -> DeletedJob:
        if journal.state.deletion is None:
            attempts = {str(one) for one in opened_attempts(self._storage, self._job_id)}
            journal.write(DeletionBegun(journal.state.status, time.time(), tuple(sorted(attempts))))
        staged = self._delete_staged(journal.state)
        files = [size for part in self._parts() for size in self._delete_part(part)]
        self._storage.collect_temporary(self._home, LEFT_BEHIND)
        journal.write(JobDeleted(time.time()))
        journal.compact(time.time())
        return DeletedJob(
            self._job_id, _was(journal.state), files=len(files), bytes=sum(files), staged=staged, left=self._left
        )

    def _parts(self) -> list[str]:
        return [name for name in self._storage.list(self._home) if name in PARTS]

    def _delete_part(self, name: str) -> list[int]:
        """Returns the bytes of each file that was there."""
        part = f"{self._home}/{name}"
        sizes = [size for _, size in self._storage.files(part)]
        self._storage.delete_tree(part)
        return sizes

    def _delete_staged(self, state: JobState) -> dict[str, int]:
        """Of this job's attempts only: a job of the same id under another root may stage in the same target."""
        others = AllAttemptsBut(() if state.deletion is None else state.deletion.attempts)
        staged, failed = {}, dict[str, Exception]()
        for uid, sink in self._sinks.items():
            try:
                staged[uid] = len(sink.collect_garbage((), others))
            except Exception as error:  # of any sink; the others' goes all the same
                failed[uid] = error
                if isinstance(error, OvertakenError):
                    break
        for uid, first in failed.items():
            cause = str(first) or type(first).__name__
            delete = ckpt_command("delete", self._job_id, root=self._storage.uri)
            raise StagedOutputLeftError(job_id=self._job_id, sink=uid, cause=cause, delete=delete) from first
        return staged


def _attempt(state: JobState) -> str:
    """Begins with the driver's, by which an Airflow task knows its own job."""
    return f"{(state.attempt or '').removesuffix(_DELETE)}{_DELETE}"


def _was(state: JobState) -> JobStatus | None:
    return state.status if state.deletion is None else state.deletion.was
