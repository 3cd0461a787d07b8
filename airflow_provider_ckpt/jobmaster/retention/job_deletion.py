"""Deletion of a job that is over, and the losses that a user must accept first (R16).

A deletion removes everything that the job has under the root, and its staged output. It never deletes released output.

1. Claim the journal without running the job, so that an earlier driver can no longer write. The terms are checked
   against the state before the claim.
2. ``DeletionBegun`` is the commit point. Before it nothing is deleted, and a driver that claims the job resumes it.
   After it every driver and every release is refused, and only another deletion can claim the job.
3. Delete the staged output in the targets of the sinks, and everything in the job's folder except the journal, in any
   order. The journal still names the sinks and the attempts that staged.
4. ``JobDeleted`` states that all is deleted. The journal is then truncated to a snapshot of the few facts that remain
   for ever.

If a deletion dies or is overtaken by another deletion, the next one completes it. An overtaken deletion may continue,
because no process writes under this id again. The claims stay in the journal, so a driver that wakes up at any time is
fenced (R3).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.errors import DeletionRefusal, OvertakenError
from airflow_provider_ckpt.job.options import kinds
from airflow_provider_ckpt.jobmaster.errors import JobNotDeletedError, StagedOutputLeftError
from airflow_provider_ckpt.jobmaster.recovery.log_checks import check_journal
from airflow_provider_ckpt.jobmaster.recovery.persisted_results import persisted_operators
from airflow_provider_ckpt.jobmaster.retention.collector import SinksOf, opened_attempts
from airflow_provider_ckpt.journal.events import DeletionBegun, JobDeleted
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import ckpt_command, release_command
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.storage.layout import PARTS, job_path
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.attempts import AttemptsExcept

_ABANDONED = "If no process runs it or will run it, add --abandoned (in Python abandoned=True); else wait for its end"
_UNFINISHED = "Run it to its end. To lose that, add --unfinished (in Python unfinished=True)"


@dataclass(frozen=True)
class DeletionTerms:
    """The losses that a user accepts before a deletion. A FINISHED job without persisted results, whose output is
    all released, needs none of them.

    Args:
        unfinished: Also delete a job that is STOPPED or FAILED. The work that the next run would have resumed is lost.
        abandoned: Also delete a job that is RESTARTING or whose driver was lost. The user states that no process runs
            it or will run it. A job whose driver is known to be alive is always refused.
        discard_unreleased: Also delete a job with completed checkpoints that are not released. Their rows are lost.
        keep_staged: Leave the staged output in the targets of the sinks.
        persisted: Also delete persisted results of a FINISHED job.
    """

    unfinished: bool = False
    abandoned: bool = False
    discard_unreleased: bool = False
    keep_staged: bool = False
    persisted: bool = False

    def __post_init__(self) -> None:
        """Refuse values that are not booleans, because the text "false" from a template would count as true.

        Raises BadOptionError.
        """
        for name, value in vars(self).items():
            kinds.FLAG.read(value, name)

    def check(self, state: JobState, root: str) -> None:
        """Refuse the deletion of a job that these terms do not cover. A deletion that has begun is not checked again.

        ``root`` is for error messages.

        Raises JobNotDeletedError.
        """
        if state.deletion is not None:
            return
        if state.status is not JobStatus.FINISHED:
            self._check_unfinished(state, root)
        if state.has_unreleased and not self.discard_unreleased:
            raise JobNotDeletedError(
                "job {job_id!r} is {status} and is not deleted: it has completed checkpoint {completed}, and "
                "released {released}. The unreleased output would be lost: release it first (`{release}`, "
                "JobClient.release). To discard it, add --discard-unreleased (in Python discard_unreleased=True)",
                reason=DeletionRefusal.UNRELEASED_OUTPUT,
                job_id=state.job_id,
                status=state.status,
                completed=state.last_completed,
                released=f"up to {state.last_released}" if state.last_released else "none",
                release=release_command(state.job_id, root),
            )
        kept = persisted_operators(state)
        if state.status is JobStatus.FINISHED and kept and not self.persisted:
            raise JobNotDeletedError(
                "job {job_id!r} is not deleted: the results of {operators} are kept for other jobs (persist=True), "
                "and would be lost. If no job reads them any longer, add --persisted (in Python persisted=True)",
                reason=DeletionRefusal.PERSISTED_RESULTS,
                job_id=state.job_id,
                operators=", ".join(kept),
            )

    def _check_unfinished(self, state: JobState, root: str) -> None:
        alive = is_alive(state.worker)
        if alive:  # even a driver that has reported its end may still stage until it exits
            stop = ckpt_command("stop", state.job_id, root=root)
            self._refuse(state, "its driver lives", f"Stop the job (`{stop}`), or wait until the driver has left")
        if state.is_held and not self.abandoned:
            driver_state = (
                "is gone" if alive is False else f"on {state.worker.host or 'a host unknown'} cannot be seen from here"
            )
            self._refuse(state, f"its driver has reported no end, and {driver_state}", _ABANDONED)
        if state.status is JobStatus.RESTARTING and not self.abandoned:
            self._refuse(state, "the next run is expected to resume it", _ABANDONED)
        if not (self.unfinished or self.abandoned):
            self._refuse(state, "it has not FINISHED, and the next run would resume it", _UNFINISHED)

    def _refuse(self, state: JobState, why: str, remedy: str) -> None:
        status = state.status or "not RUNNING yet"
        raise JobNotDeletedError(
            "job {job_id!r} is {status} and is not deleted: {why}. {remedy}",
            reason=DeletionRefusal.NOT_OVER,
            job_id=state.job_id,
            status=status,
            why=why,
            remedy=remedy,
        )


_DELETE = "~delete"


@dataclass(frozen=True)
class DeletedJob:
    """The result of a deletion: what it found and deleted. An earlier, interrupted deletion may have deleted more."""

    job_id: str
    was: JobStatus | None
    """The job's status before the deletion; None if it had none."""
    already: bool = False
    """True if an earlier deletion was complete, so that there was nothing to delete."""
    files: int = 0
    """Number of deleted files under the root, without the journal."""
    bytes: int = 0
    staged: Mapping[str, int] = field(default_factory=dict)
    """Sink uid → number of staged batches that were deleted in its target."""
    left: tuple[str, ...] = ()
    """Sinks whose targets were not searched, because of ``keep_staged`` or because the sinks are unknown."""


class JobDeletion:
    """One deletion of a job. Call :meth:`run` one time. ``sinks_of`` is called before anything is written."""

    def __init__(self, storage: Storage, job_id: str, terms: DeletionTerms, sinks_of: SinksOf) -> None:
        self._storage, self._job_id = storage, job_id
        self._terms, self._sinks_of = terms, sinks_of
        self._sinks: Mapping[str, BoundSink] = {}
        self._left: tuple[str, ...] = ()
        self._home = job_path(job_id)

    def run(self) -> DeletedJob:
        """Delete the job, or complete an earlier deletion. After an error the deletion may be repeated.

        Raises JobNotDeletedError, CorruptJournalError, FencedError, StagedOutputLeftError and the storage's errors.
        """
        journal = Journal(self._storage, self._job_id)
        state = journal.refresh()
        check_journal(self._storage, state)
        self._admit(state)
        if self._is_done(journal):
            journal.truncate(journal.state.position)  # the last deletion may have died before this step
            return DeletedJob(self._job_id, _status_before(state), already=True)
        journal.claim(_attempt(state), Worker(), time.time(), self._admit, releases_only=True)
        return self._delete(journal)

    def _admit(self, state: JobState) -> None:
        self._terms.check(state, self._storage.uri)
        vertices = () if state.plan is None else state.graph().vertices
        uids = {uid for vertex in vertices for uid in vertex.sinks}
        self._sinks = {} if self._terms.keep_staged else self._sinks_of(state)
        self._left = tuple(sorted(uids - self._sinks.keys()))

    def _is_done(self, journal: Journal) -> bool:
        done = journal.state.status is JobStatus.DELETED and journal.is_compact
        return done and not self._parts()

    def _delete(self, journal: Journal) -> DeletedJob:
        if journal.state.deletion is None:
            attempts = {str(opened_attempt) for opened_attempt in opened_attempts(self._storage, self._job_id)}
            journal.write(DeletionBegun(journal.state.status, time.time(), tuple(sorted(attempts))))
        staged = self._delete_staged(journal.state)
        files = [size for part in self._parts() for size in self._delete_part(part)]
        self._storage.collect_temporary(self._home, LEFT_BEHIND)
        journal.write(JobDeleted(time.time()))
        journal.compact(time.time())
        return DeletedJob(
            self._job_id,
            _status_before(journal.state),
            files=len(files),
            bytes=sum(files),
            staged=staged,
            left=self._left,
        )

    def _parts(self) -> list[str]:
        return [name for name in self._storage.list(self._home) if name in PARTS]

    def _delete_part(self, name: str) -> list[int]:
        """Delete one folder of the job. Return the sizes of its files in bytes."""
        part = f"{self._home}/{name}"
        sizes = [size for _, size in self._storage.files(part)]
        self._storage.delete_tree(part)
        return sizes

    def _delete_staged(self, state: JobState) -> dict[str, int]:
        """Delete the staged output of this job's attempts only, because another job may stage in the same target."""
        others = AttemptsExcept(() if state.deletion is None else state.deletion.attempts)
        staged, failed = {}, dict[str, Exception]()
        for uid, sink in self._sinks.items():
            try:
                staged[uid] = len(sink.collect_garbage((), others))
            except Exception as error:  # one failing sink does not keep the others from deleting
                failed[uid] = error
                if isinstance(error, OvertakenError):
                    break
        for uid, first in failed.items():
            cause = str(first) or type(first).__name__
            delete = ckpt_command("delete", self._job_id, root=self._storage.uri)
            raise StagedOutputLeftError(
                reason=DeletionRefusal.STAGED_OUTPUT_LEFT, job_id=self._job_id, sink=uid, cause=cause, delete=delete
            ) from first
        return staged


def _attempt(state: JobState) -> str:
    """Return the deletion's attempt name. It begins with the last attempt's name, by which an Airflow task finds it."""
    return f"{(state.attempt or '').removesuffix(_DELETE)}{_DELETE}"


def _status_before(state: JobState) -> JobStatus | None:
    return state.status if state.deletion is None else state.deletion.was
