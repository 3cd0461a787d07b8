"""Checks of the ``restore`` option. A checkpoint whose state Spark has purged is refused (R6)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from airflow_provider_ckpt.jobmaster.errors import RestoreRefusedError
from airflow_provider_ckpt.jobmaster.release.sink_releases import position
from airflow_provider_ckpt.journal.events import CheckpointCompleted, Restored
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders
from airflow_provider_ckpt.storage.layout import checkpoint_path, subtask_log_path, subtask_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog

_NAME = re.compile(r"chk-(\d+)")


@dataclass(frozen=True)
class RestorePoint:
    """The point to which the job goes back. Everything that ``completed`` covers stays.

    For a restart from scratch ``completed`` is None, and ``checkpoint`` is the last completed checkpoint, which
    covers nothing, or 0.
    """

    checkpoint: int
    completed: CheckpointCompleted | None

    @property
    def is_from_scratch(self) -> bool:
        return self.completed is None

    def continues_at(self, subtask: SubtaskId) -> int:
        """Return the position from which the subtask's log entries are void, up to the next ``open`` (R4)."""
        return 0 if self.completed is None else position(self.completed, subtask) + 1


def beginning(state: JobState) -> RestorePoint:
    """Return the restore point of a restart from scratch. :func:`nothing_is_covered` must hold."""
    return RestorePoint(state.last_completed, None)


def nothing_is_covered(state: JobState) -> bool:
    """Return whether no checkpoint has completed, or the last one covers no batch. Then nothing is released."""
    last = state.checkpoints.get(state.last_completed)
    if last is None:
        return state.last_completed == 0
    return all(snapshot.batch_id is None for snapshot in last.subtasks.values())


def resumes(storage: Storage, job_id: str, restore: str, state: JobState) -> bool:
    """Return whether the option ``restore`` means to resume after the last published batches.

    That is so for "latest". It is also so for the checkpoint of the last restore if a later checkpoint has completed,
    because a supervisor repeats its command after a failure.
    """
    if restore == "latest":
        return True
    if state.restored_epoch == state.from_scratch_epoch:
        return False  # there was no restore, or none since the restart from scratch
    return state.restored not in (0, state.last_completed) and _number(storage, job_id, restore) == state.restored


def restore_point(storage: Storage, job_id: str, restore: str, state: JobState) -> RestorePoint | None:
    """Return the checkpoint to go back to; None to resume from what is published ("latest"), or to run a new job.

    Only the last completed checkpoint can be restored, because later output is released or will be released (R9).

    Raises RestoreRefusedError.
    """

    def refuse(reason: str) -> NoReturn:
        raise RestoreRefusedError(job_id=job_id, restore=restore, reason=reason)

    if resumes(storage, job_id, restore, state):
        return None
    if restore == "none":
        if state.created is not None:
            refuse("the job has run before, and what it released stays; start afresh under another job id")
        return None
    if state.status is JobStatus.FINISHED:
        refuse("the job has FINISHED, and all of its output is released; run it under another job id")
    number = _number(storage, job_id, restore)
    if number is None:
        refuse(f"it is not a checkpoint of this job; those are {storage.full_uri(checkpoint_path(job_id, 0))[:-1]}<n>")
    completed = state.checkpoints.get(number)
    if completed is None:
        checkpoints = ", ".join(str(number) for number in sorted(state.checkpoints)[-5:]) or "none"
        refuse(f"no such checkpoint is known; the last ones are: {checkpoints}")
    if state.from_scratch_epoch and (state.restored_epoch, state.restored) == (state.from_scratch_epoch, number):
        refuse("the job was restarted from scratch after it; use 'latest'")
    if number != state.last_completed:
        refuse(
            f"checkpoint {state.last_completed} was completed after it and the sinks cannot take back what it released"
        )
    graph = state.graph()
    for subtask in graph.subtasks:  # the graph of the last run, because a new vertex has nothing to go back to
        if state.is_batch or graph.vertex(subtask.vertex).splits:
            continue  # no Spark query runs there, so the log is its only state
        if (problem := _purged(storage, job_id, subtask, completed.subtasks.get(subtask))) is not None:
            refuse(problem)
    return RestorePoint(number, completed)


def restored_event(point: RestorePoint, state: JobState, now: float) -> Restored:
    """Return the event of the restore. A source stays dropped if it was dropped before the checkpoint."""
    dropped: dict[str, dict[str, int]] = {}
    subtasks = {} if point.completed is None else point.completed.subtasks
    for vertex, uids in state.dropped.items():
        snapshots = [snapshot for name, snapshot in subtasks.items() if name.vertex == vertex]
        kept = {uid: at for uid, at in uids.items() if _was_dropped(uid, at, snapshots)}
        if kept:
            dropped[vertex] = kept
    return Restored(point.checkpoint, dropped, now, point.is_from_scratch)


def _was_dropped(uid: str, at: int, snapshots: list[Snapshot]) -> bool:
    """Return whether a source was already dropped at the checkpoint.

    A vertex with several subtasks cannot be judged by ``at``, because each subtask numbers its own batches. The source
    was dropped if every subtask had read it to its end.

    Args:
        at: Batch after which the first subtask left out the source.
        snapshots: The checkpoint's snapshots of the vertex.
    """
    if len(snapshots) == 1:
        batch = snapshots[0].batch_id
        return batch is not None and at <= batch
    return bool(snapshots) and all(uid in snapshot.ended for snapshot in snapshots)


def _number(storage: Storage, job_id: str, restore: str) -> int | None:
    folder, _, name = restore.rstrip("/").rpartition("/")
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    number = int(match[1])
    checkpoints_uri = storage.full_uri(checkpoint_path(job_id, number)).rpartition("/")[0]
    local_path = checkpoints_uri.removeprefix("file://")
    return number if folder in ("", checkpoints_uri, local_path) else None


def _purged(storage: Storage, job_id: str, subtask: SubtaskId, snapshot: Snapshot | None) -> str | None:
    if snapshot is None or snapshot.batch_id is None or snapshot.finished_on_restore:
        return None
    log = SubtaskLog(storage, subtask_log_path(job_id, subtask.vertex, subtask.number))
    log.load()
    folders, home = spark_folders(storage, job_id, subtask)
    attempt = folders.previous(log.records())
    folder = None if attempt is None else folders.folder(attempt)
    if folder is not None and folder.has_batch(snapshot.batch_id):
        return None
    if folder is None or folder.newest_commit() is None:  # the folders are gone, not purged
        return (
            f"{storage.full_uri(home)} holds no complete Spark folder of an attempt, <attempt>/ and <attempt>.json "
            "beside it: put it back from a backup, or run the job under another id"
        )
    return f"Spark has purged the state of {subtask.vertex!r} that it points to (minBatchesToRetain)"


def spark_folders(storage: Storage, job_id: str, subtask: SubtaskId) -> tuple[AttemptFolders, str]:
    """Return (Spark folders of the subtask's attempts, path of their parent folder)."""
    home = f"{subtask_path(job_id, subtask.vertex, subtask.number)}/spark"
    return AttemptFolders(storage, home), home
