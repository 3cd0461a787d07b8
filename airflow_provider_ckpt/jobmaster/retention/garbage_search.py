"""Search for the garbage of one job. The search only reads, and claims nothing.

The result depends on the job's state:

* FINISHED: everything that the clean-up at the end of the job deletes (:func:`~.collector.clean_up`).
* DELETED: everything in the job's folder except the journal.
* Not running: leftovers of attempts that are over (:mod:`.orphaned_output`), and files that a later epoch or checkpoint
  has replaced (:func:`superseded_files`).
* Perhaps running: nothing. A driver collects by itself when it takes the job over.

The numbers of epochs and checkpoints only grow. So a driver that claims the job after its journal was read needs no
file of a past number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from airflow_provider_ckpt.jobmaster.recovery.log_checks import check_journal
from airflow_provider_ckpt.jobmaster.retention.collector import SinksOf, deleted_files
from airflow_provider_ckpt.jobmaster.retention.garbage import Garbage, JobGarbage, Reason, garbage_of
from airflow_provider_ckpt.jobmaster.retention.idle_job_garbage import IdleJobGarbage
from airflow_provider_ckpt.jobmaster.retention.orphaned_output import staged_orphans
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import requests_before
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import ckpt_command, release_command
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.layout import (
    PARTS,
    checkpoint_path,
    deployment_path,
    deployments_path,
    frozen_path,
    job_path,
    late_path,
    request_path,
    requests_path,
    vertices_path,
)
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.record_codec import subtask_entries
from airflow_provider_ckpt.subtasklog.records import Open

_FROZEN = re.compile(r"(\w+?)(?:\.(\d{4,}))?\.json", re.ASCII)


def find_garbage(storage: Storage, job_id: str, sinks_of: SinksOf) -> JobGarbage:
    """Return the garbage of a job. Unreadable data raises an error, because it does not count as absent.

    Raises CorruptJournalError, CorruptLogError, SubtaskLogLostError, PreparedLostError, the sinks' errors and the
    storage's errors.
    """
    state = Journal(storage, job_id).replay()
    check_journal(storage, state)
    result = JobGarbage(job_id, state.status, state.epoch)
    if (reason := why_running(state)) is not None:
        return _result(result, skipped=reason)
    if state.status is JobStatus.DELETING:
        delete = ckpt_command("delete", job_id, root=storage.uri)
        return _result(result, skipped=f"its deletion was interrupted: `{delete}` completes it")
    if state.status is JobStatus.DELETED:
        return _result(result, _deleted_job_files(storage, job_id))
    sinks = sinks_of(state)
    unchecked = [f"sink {uid}: its staged output is unknown" for uid in _unlistable_sinks(state, sinks)]
    if state.status is not JobStatus.FINISHED:
        idle = IdleJobGarbage(storage, state, sinks)
        garbage = [*idle.garbage(), *superseded_files(storage, state), *_temporary(storage, job_id)]
        return _result(result, garbage, left=(*unchecked, *idle.left))
    if state.has_unreleased:
        release = release_command(job_id, storage.uri)
        reason = f"it has completed checkpoint {state.last_completed}, which is not released: `{release}` does it"
        return _result(result, skipped=reason)
    return _result(result, [*_finished_job_files(storage, state, sinks), *_temporary(storage, job_id)], left=unchecked)


def why_running(state: JobState) -> str | None:
    """Return why the job may be running; None if no process runs it."""
    alive = is_alive(state.worker)
    if alive:
        return "its driver lives"
    if state.is_held and alive is None:
        return f"its driver on {state.worker.host or 'a host unknown'} has reported no end and cannot be seen from here"
    if state.is_held and state.deployment:
        return "its JobMaster is gone, and its workers may still run"
    return None


def _result(
    result: JobGarbage, garbage: Iterable[Garbage] = (), *, skipped: str | None = None, left: Iterable[str] = ()
) -> JobGarbage:
    return JobGarbage(result.job_id, result.status, result.epoch, tuple(garbage), skipped, None, tuple(left))


def _unlistable_sinks(state: JobState, sinks: Mapping[str, BoundSink]) -> list[str]:
    """Return the sinks whose staged output is unknown: not in ``sinks``, or unable to list their staged output."""
    uids = {uid for vertex in state.graph().vertices for uid in vertex.sinks}
    return sorted(uid for uid in uids if uid not in sinks or sinks[uid].staged() is None)


def superseded_files(storage: Storage, state: JobState) -> Iterator[Garbage]:
    """Yield files that only past epochs or past checkpoints needed.

    These are requests and deployments of past epochs, folders of completed checkpoints that the journal no longer
    lists, and superseded frozen lists. ``state`` must be read from the journal before the call, because a driver that
    claims the job later may write new files.
    """
    # a deployment spans several epochs of JobMasters, and a driver that was upgraded spans several, too
    job_id, first_epoch = state.job_id, state.deployment or state.driver_since or state.epoch
    for name in requests_before(storage, job_id, first_epoch):
        yield from _file(storage, request_path(job_id, name), Reason.REQUEST)
    for name in storage.list(deployments_path(job_id)):
        if name.isdecimal() and int(name) < first_epoch:
            yield from _folder(storage, deployment_path(job_id, int(name)), Reason.DEPLOYMENT)
    for name in storage.list(f"{job_path(job_id)}/checkpoints"):
        number = name.removeprefix("chk-")
        if number.isdecimal() and int(number) <= state.last_completed and int(number) not in state.checkpoints:
            yield from _folder(storage, checkpoint_path(job_id, int(number)), Reason.CHECKPOINT)
    yield from _frozen(storage, state)


def _file(storage: Storage, path: str, reason: Reason) -> Iterator[Garbage]:
    try:
        yield Garbage(path, reason, 1, storage.size(path))
    except ObjectNotFoundError:
        pass  # a new driver has deleted it meanwhile


def _frozen(storage: Storage, state: JobState) -> Iterator[Garbage]:
    """Yield frozen lists that no source uses any longer.

    The name of a list has the first epoch whose attempts count for the source (``JobState.valid_from``). The name of a
    source's first list has no epoch. If a source is dropped and added again, the name has the epoch of the driver that
    added it again.
    """
    folder = f"{job_path(state.job_id)}/frozen"
    named = {f"{state.job_id}/{frozen.path}" for frozen in state.frozen.values()}
    for name in storage.list(folder):
        match = _FROZEN.fullmatch(name)
        if match is None:
            continue
        uid, epoch = match[1], int(match[2] or 0)
        path = frozen_path(state.job_id, uid, epoch)
        was_dropped = uid in state.abandoned and uid not in state.graph().operators
        is_past = epoch < state.valid_from(uid) or (was_dropped and epoch <= state.epoch)
        if is_past and path not in named and path == f"{folder}/{name}":
            yield from _file(storage, late_path(path), Reason.FROZEN)  # first, because the list's name leads here
            yield from _file(storage, path, Reason.FROZEN)


def _deleted_job_files(storage: Storage, job_id: str) -> Iterator[Garbage]:
    home = job_path(job_id)
    for part in [name for name in storage.list(home) if name in PARTS]:
        yield from _folder(storage, f"{home}/{part}", Reason.DELETED)


def _finished_job_files(storage: Storage, state: JobState, sinks: Mapping[str, BoundSink]) -> Iterator[Garbage]:
    vertices, attempts = vertices_path(state.job_id), set[str]()
    for uid in storage.list(vertices):
        for number in storage.list(f"{vertices}/{uid}"):
            entries = subtask_entries(storage, f"{vertices}/{uid}/{number}/log").load()
            attempts |= {str(entry.value.attempt) for entry in entries if isinstance(entry.value, Open)}
    for path in deleted_files(storage, state):
        yield from _folder(storage, path, Reason.FINISHED)
    yield from _folder(storage, requests_path(state.job_id), Reason.FINISHED)
    yield from staged_orphans(sinks, attempts, ())


def _folder(storage: Storage, path: str, reason: Reason) -> Iterator[Garbage]:
    sizes = [size for _, size in storage.files(path)]
    if sizes:  # an empty folder on a local disk is no garbage
        yield garbage_of(path, reason, sizes)


def _temporary(storage: Storage, job_id: str) -> Iterator[Garbage]:
    home = job_path(job_id)
    for path, size in storage.temporary(home, LEFT_BEHIND):
        yield Garbage(f"{home}/{path}", Reason.TEMPORARY, 1, size)
