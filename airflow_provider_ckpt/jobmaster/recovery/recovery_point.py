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
        restore: Point to which the job goes back first; None to resume from what is published. A new job resumes from
            nothing.
        is_journaled: True if an earlier driver has journaled that restore and not completed it.
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
    is_anew: bool,
    asked: RestorePoint | None,
) -> RecoveryPoint:
    """Return where the run starts. It reads only.

    Call it after the claim, because the previous driver may complete its restore until then.

    Args:
        graph: Graph that this run uses.
        is_anew: True if no checkpoint covers anything and the job's definition does not fit the recorded one.
        asked: Checked checkpoint that the user wants to go back to (:func:`~.restore.restore_point`).
    """
    if is_anew:
        return RecoveryPoint(beginning(state))
    if asked is not None:
        return RecoveryPoint(asked)
    if not state.restored_epoch or state.restored != state.last_completed:
        return RecoveryPoint(
            None
        )  # there was no restore, or a checkpoint completed since, so every log had been rewound
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
    """Return the target of the last restore, if the driver that began it has not completed it; else None.

    Such a driver died after it had rewound some logs and not others (R4). No checkpoint has completed since. No query
    was started before all logs of that time were rewound, so it is correct to rewind all of them once more.

    Args:
        logs: Loaded logs.
    """
    anew = state.restored_epoch == state.anew_epoch
    epoch, by_split = state.restored_epoch, {vertex.uid for vertex in graph.vertices if vertex.splits}
    unfinished = _to_be_taken_back(logs, by_split, anew=anew)
    if mode == "batch":  # there are no Spark folders, and an attempt without its end is void in any case
        back = all(_was_opened(logs[subtask], epoch) for subtask in unfinished)
    else:
        back = all(
            _was_opened(logs[subtask], epoch)
            if subtask.vertex in by_split
            else _is_back(storage, job_id, subtask, logs[subtask], epoch)
            for subtask in unfinished
        )
    if back:
        return None
    return beginning(state) if anew else RestorePoint(state.restored, state.checkpoints[state.restored])


def _to_be_taken_back(logs: Mapping[SubtaskId, SubtaskLog], by_split: set[str], *, anew: bool) -> list[SubtaskId]:
    """Return the subtasks whose logs a restore must rewind.

    A log that was never opened belongs to a new vertex, and has nothing to rewind. At a restart from scratch, subtasks
    with splits are left out, because opening their logs voids the old entries (``is_outdated``). An unopened log means
    nothing there: a rescale may have brought the subtask back just before the driver died (R21).
    """
    if anew:
        return [one for one, log in logs.items() if log.state.opened and one.vertex not in by_split]
    return [one for one, log in logs.items() if log.state.opened and not log.state.closed]


def _was_opened(log: SubtaskLog, epoch: int) -> bool:
    return any(isinstance(one, Open) and one.epoch >= epoch for _, one in log.records())


def _is_back(storage: Storage, job_id: str, subtask: SubtaskId, log: SubtaskLog, epoch: int) -> bool:
    records = log.records()
    folders, _ = spark_folders(storage, job_id, subtask)
    newest = folders.previous(records)
    return any(isinstance(one, Open) and one.attempt == newest and one.epoch >= epoch for _, one in records)
