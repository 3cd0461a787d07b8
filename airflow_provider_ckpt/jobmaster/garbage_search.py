"""Search for garbage of one job. The search only reads, and claims nothing. It depends on the job's state:

* FINISHED: everything that the clean-up at the end of the job deletes (:func:`~.collector.clean_up`). No driver ever
  runs the job again.
* DELETED: everything in the job's folder except the journal.
* Not running: leftovers of attempts that are over (:mod:`.subtask_orphans`), and files of a past epoch, generation or
  checkpoint (:mod:`.numbered_leftovers`).
* Running, or perhaps running: nothing. A driver collects by itself when it takes the job over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from airflow_provider_ckpt.jobmaster.collector import given_back
from airflow_provider_ckpt.jobmaster.garbage import Garbage, JobGarbage, Reason, garbage_of
from airflow_provider_ckpt.jobmaster.log_checks import check_journal
from airflow_provider_ckpt.jobmaster.numbered_leftovers import numbered_leftovers
from airflow_provider_ckpt.jobmaster.staged_orphans import staged_orphans
from airflow_provider_ckpt.jobmaster.unrun_job import UnrunJob
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import ckpt_command, release_command
from airflow_provider_ckpt.partitions.records import Open
from airflow_provider_ckpt.partitions.subtask_entries import subtask_entries
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.storage.layout import PARTS, job_path, requests_path, vertices_path
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.storage import Storage

SinksOf = Callable[[JobState], Mapping[str, BoundSink]]


def find_garbage(storage: Storage, job_id: str, sinks_of: SinksOf) -> JobGarbage:
    """Return the garbage of a job. Unreadable data raises an error, because it does not count as absent.

    Args:
        storage: Storage of the root.
        sinks_of: Function that returns the reachable sinks of the job.

    Raises CorruptJournalError, CorruptLogError, SubtaskLogLostError, SubtaskLogReopenedError, PreparedLostError, the
    sinks' errors and the storage's errors.
    """
    state = Journal(storage, job_id).replay()
    check_journal(storage, state)
    found = JobGarbage(job_id, state.status, state.epoch)
    if (runs := who_runs(state)) is not None:
        return _with(found, skipped=runs)
    if state.status is JobStatus.DELETING:
        delete = ckpt_command("delete", job_id, root=storage.uri)
        return _with(found, skipped=f"its deletion was interrupted: `{delete}` completes it")
    if state.status is JobStatus.DELETED:
        return _with(found, _of_deleted(storage, job_id))
    sinks = sinks_of(state)
    left = [f"sink {uid}: its staged output is unknown" for uid in _unknown(state, sinks)]
    if state.status is not JobStatus.FINISHED:
        unrun = UnrunJob(storage, state, sinks)
        garbage = [*unrun.garbage(), *numbered_leftovers(storage, state), *_temporary(storage, job_id)]
        return _with(found, garbage, left=(*left, *unrun.left))
    if state.has_unreleased:
        release = release_command(job_id, storage.uri)
        what = f"it has completed checkpoint {state.last_completed}, which is not released: `{release}` does it"
        return _with(found, skipped=what)
    return _with(found, [*_of_finished(storage, state, sinks), *_temporary(storage, job_id)], left=left)


def who_runs(state: JobState) -> str | None:
    """Return why the job must be assumed to be running; None if no process runs it."""
    alive = is_alive(state.worker)
    if alive:
        return "its driver lives"
    if state.is_held and alive is None:
        return f"its driver on {state.worker.host or 'a host unknown'} has reported no end and cannot be seen from here"
    if state.is_held and state.deployment:
        return "its JobMaster is gone, and its workers may go on"
    return None


def _with(
    found: JobGarbage, garbage: Iterable[Garbage] = (), *, skipped: str | None = None, left: Iterable[str] = ()
) -> JobGarbage:
    return JobGarbage(found.job_id, found.status, found.epoch, tuple(garbage), skipped, None, tuple(left))


def _unknown(state: JobState, sinks: Mapping[str, BoundSink]) -> list[str]:
    """Return the sinks whose staged output is unknown: they are not recorded, or their kind cannot list it."""
    wanted = {uid for vertex in state.graph().vertices for uid in vertex.sinks}
    return sorted(uid for uid in wanted if uid not in sinks or sinks[uid].staged() is None)


def _of_deleted(storage: Storage, job_id: str) -> Iterator[Garbage]:
    home = job_path(job_id)
    for part in [name for name in storage.list(home) if name in PARTS]:
        sizes = [size for _, size in storage.files(f"{home}/{part}")]
        if sizes:  # an empty folder on a local disk is no garbage
            yield garbage_of(f"{home}/{part}", Reason.DELETED, sizes)


def _of_finished(storage: Storage, state: JobState, sinks: Mapping[str, BoundSink]) -> Iterator[Garbage]:
    vertices, attempts = vertices_path(state.job_id), set[str]()
    for place in storage.list(vertices):
        for number in storage.list(f"{vertices}/{place}"):
            entries = subtask_entries(storage, f"{vertices}/{place}/{number}/log").load()
            attempts |= {str(entry.value.attempt) for entry in entries if isinstance(entry.value, Open)}
    for path in given_back(storage, state):
        yield from _folder(storage, path, Reason.FINISHED)
    yield from _folder(storage, requests_path(state.job_id), Reason.FINISHED)
    yield from staged_orphans(sinks, attempts, ())


def _folder(storage: Storage, path: str, reason: Reason) -> Iterator[Garbage]:
    sizes = [size for _, size in storage.files(path)]
    if sizes:
        yield garbage_of(path, reason, sizes)


def _temporary(storage: Storage, job_id: str) -> Iterator[Garbage]:
    home = job_path(job_id)
    for path, size in storage.temporary(home, LEFT_BEHIND):
        yield Garbage(f"{home}/{path}", Reason.TEMPORARY, 1, size)
