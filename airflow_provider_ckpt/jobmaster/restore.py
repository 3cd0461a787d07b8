"""What ``restore`` asks for, and whether it can be had: what Spark has purged is refused (R6)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from airflow_provider_ckpt.jobmaster.errors import RestoreRefusedError
from airflow_provider_ckpt.jobmaster.sink_releases import position
from airflow_provider_ckpt.journal.events import CheckpointCompleted, Restored
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders
from airflow_provider_ckpt.storage.layout import checkpoint_path, subtask_log_path, subtask_path
from airflow_provider_ckpt.storage.storage import Storage

_NAME = re.compile(r"chk-(\d+)")


@dataclass(frozen=True)
class RestorePoint:
    """Where the job goes back to: what a completed checkpoint covers stays. ``completed`` is None for a job that
    begins anew: nothing stays, as nothing was ever released; ``checkpoint`` is then the last one, which covers nothing,
    or 0."""

    checkpoint: int
    completed: CheckpointCompleted | None

    @property
    def is_anew(self) -> bool:
        return self.completed is None

    def continues_at(self, subtask: SubtaskId) -> int:
        """Entries of the subtask's log between this position and the new attempt's ``open`` are void (R4)."""
        return 0 if self.completed is None else position(self.completed, subtask) + 1


def beginning(state: JobState) -> RestorePoint:
    """To begin anew from, if :func:`nothing_is_covered`."""
    return RestorePoint(state.last_completed, None)


def nothing_is_covered(state: JobState) -> bool:
    """No checkpoint completed, or none that covers a batch: checkpoints go on while a first batch takes its time. So
    nothing was released."""
    last = state.checkpoints.get(state.last_completed)
    if last is None:
        return state.last_completed == 0
    return all(snapshot.batch_id is None for snapshot in last.subtasks.values())


def goes_on(storage: Storage, job_id: str, restore: str, state: JobState) -> bool:
    """Whether ``restore`` means to go on from what is published: "latest", or the checkpoint the job went back to
    last, after which another one completed. Whoever starts the same command again after a failure wants to go on,
    as a Flink job with high availability does."""
    if restore == "latest":
        return True
    if state.restored_epoch == state.anew_epoch:
        return False  # there was no restore, or none since the job began anew
    return state.restored not in (0, state.last_completed) and _number(storage, job_id, restore) == state.restored


def restore_point(storage: Storage, job_id: str, restore: str, state: JobState) -> RestorePoint | None:
    """The checkpoint to go back to; None: go on from what is published ("latest"), or from nothing.

    Raises RestoreRefusedError. A checkpoint below the last completed one cannot be restored: what came after
    it is released, or will be (R9: a completed checkpoint is rolled forward before any rewind), and the sinks
    cannot take it back.
    """

    def refuse(reason: str) -> NoReturn:
        raise RestoreRefusedError(job_id=job_id, restore=restore, reason=reason)

    if goes_on(storage, job_id, restore, state):
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
        known = ", ".join(str(n) for n in sorted(state.checkpoints)[-5:]) or "none"
        refuse(f"no such checkpoint is known; the last ones are: {known}")
    if state.anew_epoch and (state.restored_epoch, state.restored) == (state.anew_epoch, number):
        refuse("the job was begun anew after it; go on with 'latest'")
    if number != state.last_completed:
        refuse(
            f"checkpoint {state.last_completed} was completed after it and the sinks cannot take back what it released"
        )
    graph = state.graph()
    definition = None if state.plan is None else state.plan.definition
    is_batch = definition is not None and definition.mode == "batch"
    for subtask in graph.subtasks:  # as it ran last; a vertex that is new since has nothing to go back to
        if is_batch or graph.vertex(subtask.vertex).splits:
            continue  # it is no query of Spark's, and its log is all it has
        if (problem := _purged(storage, job_id, subtask, completed.subtasks.get(subtask))) is not None:
            refuse(problem)
    return RestorePoint(number, completed)


def restored_event(point: RestorePoint, state: JobState, now: float) -> Restored:
    """What was dropped by the checkpoint's batches stays dropped; the rest is read again."""
    dropped: dict[str, dict[str, int]] = {}
    subtasks = {} if point.completed is None else point.completed.subtasks
    for vertex, uids in state.dropped.items():
        snapshots = [snapshot for name, snapshot in subtasks.items() if name.vertex == vertex]
        kept = {uid: at for uid, at in uids.items() if _was_dropped(uid, at, snapshots)}
        if kept:
            dropped[vertex] = kept
    return Restored(point.checkpoint, dropped, now, point.is_anew)


def _was_dropped(uid: str, at: int, snapshots: list[Snapshot]) -> bool:
    """``at``: the batch behind which the first subtask left it out; the numbers of others have nothing to do with it,
    and of those it is known that they had read it to its end."""
    if len(snapshots) == 1:
        batch = snapshots[0].batch_id
        return batch is not None and at <= batch
    return bool(snapshots) and all(uid in snapshot.ended for snapshot in snapshots)


def _number(storage: Storage, job_id: str, restore: str) -> int | None:
    folder, _, name = restore.rstrip("/").rpartition("/")
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    number = int(found[1])
    here = storage.full_uri(checkpoint_path(job_id, number)).rpartition("/")[0]
    plain = here.removeprefix("file://")
    return number if folder in ("", here, plain) else None


def _purged(storage: Storage, job_id: str, subtask: SubtaskId, snapshot: Snapshot | None) -> str | None:
    """Why the subtask cannot go back to the snapshot; None: it can."""
    if snapshot is None or snapshot.batch_id is None or snapshot.finished_on_restore:
        return None
    log = SubtaskLog(storage, subtask_log_path(job_id, subtask.vertex, subtask.number))
    log.load()
    folders, home = spark_folders(storage, job_id, subtask)
    attempt = folders.previous(log.records())
    folder = None if attempt is None else folders.folder(attempt)
    if folder is not None and folder.has_batch(snapshot.batch_id):
        return None
    if folder is None or folder.newest_commit() is None:  # none was purged of anything, they are gone
        return (
            f"{storage.full_uri(home)} holds no complete Spark folder of an attempt, <attempt>/ and <attempt>.json "
            "beside it: put it back from a backup, or run the job under another id"
        )
    return f"Spark has purged the state of {subtask.vertex!r} that it points to (minBatchesToRetain)"


def spark_folders(storage: Storage, job_id: str, subtask: SubtaskId) -> tuple[AttemptFolders, str]:
    """Of the subtask's attempts, and where they are."""
    home = f"{subtask_path(job_id, subtask.vertex, subtask.number)}/spark"
    return AttemptFolders(storage, home), home
