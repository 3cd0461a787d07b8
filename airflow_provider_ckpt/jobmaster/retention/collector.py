"""Deletion of leftovers of fenced attempts (R5), and of all folders that a FINISHED job no longer needs.

The leftovers are staged output, and partition data that was never published. The job's own logs name the attempts,
because another job may stage in the same target.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping

from airflow_provider_ckpt.jobmaster.recovery.persisted_results import persisted_folders, unnamed_paths
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph, layout_of
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.sinks.errors import GarbageLeftError
from airflow_provider_ckpt.sinks.sink import BoundSink, attempt_of
from airflow_provider_ckpt.sparkfiles.attempt_feeds import delete_feeds_before
from airflow_provider_ckpt.storage.errors import CorruptLogError
from airflow_provider_ckpt.storage.layout import (
    JOURNAL,
    PARTS,
    job_path,
    partition_path,
    requests_path,
    subtask_path,
    vertices_path,
)
from airflow_provider_ckpt.storage.removal import ErrorCollector, best_effort
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.attempts import AttemptsExcept, LivingAttempts, fenced
from airflow_provider_ckpt.subtasklog.record_codec import subtask_entries
from airflow_provider_ckpt.subtasklog.records import Batch, Open
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog

log = logging.getLogger(__name__)
SinksOf = Callable[[JobState], Mapping[str, BoundSink]]
"""A function that returns the reachable sinks of a job."""
DELETED_FOLDERS = ("partition", "spark", "prepared", "scratch", "trial")
"""Folders of each subtask that are deleted when the job has FINISHED. The subtask's log stays."""


def collect_garbage(
    storage: Storage,
    job_id: str,
    graph: JobGraph,
    logs: Mapping[SubtaskId, SubtaskLog],
    sinks: Mapping[str, BoundSink],
    epoch: int,
    check_fenced: Callable[[], None],
) -> int:
    """Delete leftovers of fenced attempts that no live log entry names. Return how many leftovers were found.

    A leftover that cannot be deleted is logged and stays. In the targets of sinks only staged output of this job's
    attempts is deleted. A job of the same id under another root may stage there, too.

    Call this when every log has been opened and every Spark folder is complete. A driver that claims the job after
    ``check_fenced`` resumes from these logs and folders, so it cannot publish deleted data.
    """
    living = LivingAttempts(epoch, {attempt for log in logs.values() for attempt in fenced(log.records())})
    others = _attempts_to_spare(storage, job_id, logs, living) if sinks else AttemptsExcept(())
    removed = 0
    for vertex in graph.vertices:
        batches = {
            name: [record for _, record in logs[name].records() if isinstance(record, Batch)]
            for name in vertex.subtasks
        }
        for name in vertex.subtasks:
            logs[name].check_fenced()
        check_fenced()
        for uid in vertex.sinks:  # all subtasks at once, because a sink knows attempts but not their subtasks
            staged_handles = [batch.handles for of_subtask in batches.values() for batch in of_subtask]
            handles = {str(staged[uid]["id"]) for staged in staged_handles if uid in staged}
            removed += _collect_staged(sinks[uid], handles, others)
        for name, of_subtask in batches.items():
            removed += _collect_partition(storage, job_id, graph, name, of_subtask, epoch, living)
            _delete_staged(storage, f"{subtask_path(job_id, name.vertex, name.number)}/scratch", living)
    return removed


def _attempts_to_spare(
    storage: Storage, job_id: str, logs: Mapping[SubtaskId, SubtaskLog], living: LivingAttempts
) -> AttemptsExcept:
    opened = [record.attempt for log in logs.values() for _, record in log.records() if isinstance(record, Open)]
    earlier = opened_attempts(storage, job_id, {log.path for log in logs.values()})
    return AttemptsExcept(name for name in map(str, (*opened, *earlier)) if name not in living)


def _collect_staged(sink: BoundSink, handles: Collection[str], others: AttemptsExcept) -> int:
    try:
        return len(sink.collect_garbage(handles, others))
    except GarbageLeftError as error:  # garbage that stays does no harm
        log.warning("%s", error)
        return len(error.data["deleted"])


def _collect_partition(
    storage: Storage,
    job_id: str,
    graph: JobGraph,
    subtask: SubtaskId,
    batches: list[Batch],
    epoch: int,
    living: LivingAttempts,
) -> int:
    layout = graph.vertex(subtask.vertex).layout
    if not (layout or graph.publishes(subtask.vertex)):
        return 0
    partition = partition_path(job_id, subtask.vertex, subtask.number)
    for edge in graph.outputs(subtask.vertex):
        with best_effort(f"the feeds of previous attempts in {partition}"):
            delete_feeds_before(storage, f"{partition}/{graph.edge_folder(edge)}", epoch)
    published = {file.folder for batch in batches for file in batch.files}
    folders = {graph.data_folder(subtask.vertex)}
    if layout:  # folders for earlier consumers
        folders |= {f"{name}/data" for name in storage.list(partition) if layout_of(name)}
    return sum(_delete_staged(storage, f"{partition}/{folder}", living, published) for folder in sorted(folders))


def _delete_staged(storage: Storage, folder: str, living: LivingAttempts, keep: Collection[str] = ()) -> int:
    """Delete the folders ``<attempt>-<batch>-<nonce>`` of attempts that are over. Folders with any other name stay."""
    garbage = [name for name in storage.list(folder) if name not in keep and _attempt(name) not in living]
    for name in garbage:
        with best_effort(f"{folder}/{name}"):
            storage.delete_tree(f"{folder}/{name}")
    return len(garbage)


def _attempt(name: str) -> str:
    return attempt_of(name) or ""


def clean_up(storage: Storage, job_id: str, graph: JobGraph, sinks: Mapping[str, BoundSink]) -> None:
    """Delete the partitions, Spark folders and staged leftovers of a FINISHED job, because it is never started again.

    The journal, the logs and the metadata of checkpoints stay as a record, and so do persisted results. Any process may
    call this repeatedly. Nothing is deleted if the job is not FINISHED according to its journal (R16).
    """
    state = Journal(storage, job_id).replay()
    if state.status is not JobStatus.FINISHED:
        log.warning("job %s is not FINISHED by its journal: nothing is cleaned up", job_id)
        return
    errors = ErrorCollector()
    for path in deleted_files(storage, state):
        with errors.tried(path):
            storage.delete_tree(path)
    uids = {uid for vertex in graph.vertices for uid in vertex.sinks} & sinks.keys()  # sinks may have changed since
    if uids:
        with errors.tried("what the logs say"):
            others = AttemptsExcept(str(opened_attempt) for opened_attempt in opened_attempts(storage, job_id))
            for uid in sorted(uids):
                with errors.tried(f"sink {uid}"):
                    sinks[uid].collect_garbage(set(), others)
    with errors.tried("requests"):
        storage.delete_tree(requests_path(job_id))
    for part in (*PARTS, JOURNAL):  # nothing is written there any longer; other folders may hold output of users
        with errors.tried(part):
            storage.collect_temporary(f"{job_path(job_id)}/{part}", 0.0)
    errors.raise_first()


def deleted_files(storage: Storage, state: JobState) -> Iterator[str]:
    """Yield the folders that a FINISHED job no longer needs, also folders from before a restart from scratch.

    Raises the errors of :func:`persisted_folders`, before any folder is yielded.
    """
    kept = {
        partition: folders
        for vertex in state.graph().vertices
        if vertex.persist
        for partition, folders in persisted_folders(storage, state, vertex)
    }
    vertices = vertices_path(state.job_id)
    for uid in storage.list(vertices):
        for number in storage.list(f"{vertices}/{uid}"):
            for part in DELETED_FOLDERS:
                path = f"{vertices}/{uid}/{number}/{part}"
                if kept.get(path):
                    yield from unnamed_paths(storage, path, kept[path])
                else:
                    yield path


def opened_attempts(storage: Storage, job_id: str, exclude: Collection[str] = ()) -> Iterator[AttemptId]:
    """Yield the attempts of every subtask that the job ever had, because another vertex may have fed a sink before.

    No attempt with leftovers is missing, because an attempt opens its log before it stages, and ``open`` records are
    never truncated. For a damaged log the attempts before the damage are yielded. ``exclude``: paths of logs to omit.
    """
    vertices = vertices_path(job_id)
    for vertex in storage.list(vertices):
        for subtask in storage.list(f"{vertices}/{vertex}"):
            path = f"{vertices}/{vertex}/{subtask}/log"
            if path in exclude:
                continue
            try:
                entries = subtask_entries(storage, path).load()
            except CorruptLogError as error:
                entries = error.data["intact"]
            yield from (entry.value.attempt for entry in entries if isinstance(entry.value, Open))
