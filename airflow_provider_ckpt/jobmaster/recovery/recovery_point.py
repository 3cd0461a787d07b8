"""The point from which a run of a job starts, found in the journal and in the logs of its subtasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ckpt.jobmaster.recovery.restore import RestorePoint, beginning, spark_folders
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import RuntimeMode
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Open
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog


def load_logs(storage: Storage, job_id: str, graph: JobGraph) -> dict[SubtaskId, SubtaskLog]:
    logs: dict[SubtaskId, SubtaskLog] = {}
    for subtask in graph.subtasks:
        log = SubtaskLog(storage, subtask_log_path(job_id, subtask.vertex, subtask.number))
        log.load()
        logs[subtask] = log
    return logs


@dataclass(frozen=True)
class RecoveryPoint:
    """The point from which a run starts.

    Args:
        restore: Point to which the job goes back first; None to resume from what is published (a new job: from
            nothing).
        is_journaled: True if an earlier driver has journaled this restore, and not completed it.
    """

    restore: RestorePoint | None
    is_journaled: bool = False


def find_recovery_point(
    storage: Storage,
    job_id: str,
    state: JobState,
    graph: JobGraph,
    mode: RuntimeMode,
    *,
    from_scratch: bool,
    requested: RestorePoint | None,
) -> RecoveryPoint:
    """Return where the run starts. Nothing is written.

    Call this after the claim, because the previous driver may complete its restore before the claim.

    Args:
        from_scratch: True if no checkpoint covers anything and the job's definition has changed too much to resume.
        requested: Point to which the user wants to go back, from :func:`~.restore.restore_point`; None to resume.
    """
    if from_scratch:
        return RecoveryPoint(beginning(state))
    if requested is not None:
        return RecoveryPoint(requested)
    if not state.restored_epoch or state.restored != state.last_completed:
        return RecoveryPoint(None)  # there was no restore, or a later checkpoint shows that it was complete
    interrupted = interrupted_restore(storage, job_id, state, graph, load_logs(storage, job_id, graph), mode)
    return RecoveryPoint(interrupted, is_journaled=interrupted is not None)


def interrupted_restore(
    storage: Storage,
    job_id: str,
    state: JobState,
    graph: JobGraph,
    logs: Mapping[SubtaskId, SubtaskLog],
    mode: RuntimeMode,
) -> RestorePoint | None:
    """Return the point of the last restore if its driver died before all logs were set back (R4); else None.

    No query has started since then, so all logs can be set back again.
    """
    from_scratch = state.restored_epoch == state.from_scratch_epoch
    epoch, by_split = state.restored_epoch, {vertex.uid for vertex in graph.vertices if vertex.splits}
    unfinished = _subtasks_to_rewind(logs, by_split, from_scratch=from_scratch)
    if mode == "batch":  # there are no Spark folders, and an attempt without its end is void in any case
        is_complete = all(_was_opened(logs[subtask], epoch) for subtask in unfinished)
    else:
        is_complete = all(
            _was_opened(logs[subtask], epoch)
            if subtask.vertex in by_split
            else _has_rewound(storage, job_id, subtask, logs[subtask], epoch)
            for subtask in unfinished
        )
    if is_complete:
        return None
    return beginning(state) if from_scratch else RestorePoint(state.restored, state.checkpoints[state.restored])


def _subtasks_to_rewind(
    logs: Mapping[SubtaskId, SubtaskLog], by_split: set[str], *, from_scratch: bool
) -> list[SubtaskId]:
    """Return the subtasks whose logs a restore must set back.

    A log that was never opened belongs to a new vertex, and has no entries to void. A restart from scratch leaves out
    subtasks with splits, because opening their logs voids the old entries (``is_outdated``). A rescale may have added
    such a subtask just before the driver died, so its log may be unopened (R21).
    """
    if from_scratch:
        return [subtask for subtask, log in logs.items() if log.state.opened and subtask.vertex not in by_split]
    return [subtask for subtask, log in logs.items() if log.state.opened and not log.state.closed]


def _was_opened(log: SubtaskLog, epoch: int) -> bool:
    return any(isinstance(record, Open) and record.epoch >= epoch for _, record in log.records())


def _has_rewound(storage: Storage, job_id: str, subtask: SubtaskId, log: SubtaskLog, epoch: int) -> bool:
    records = log.records()
    folders, _ = spark_folders(storage, job_id, subtask)
    newest = folders.previous(records)
    return any(isinstance(record, Open) and record.attempt == newest and record.epoch >= epoch for _, record in records)
