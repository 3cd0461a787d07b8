"""Where a run of a job begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ckpt.jobmaster.loaded_logs import load_logs
from airflow_provider_ckpt.jobmaster.restore import RestorePoint, beginning, spark_folders
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.mode import RuntimeMode
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.records import Open
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.storage.storage import Storage


@dataclass(frozen=True)
class Start:
    """``restore``: where the job goes back to first. None: it goes on from what is published, which of a job that has
    not run is nothing. ``is_journaled``: a driver before has written down that restore, and not completed it."""

    restore: RestorePoint | None
    is_journaled: bool = False


def find_start(
    storage: Storage,
    job_id: str,
    state: JobState,
    graph: JobGraph,
    mode: RuntimeMode,
    *,
    is_anew: bool,
    asked: RestorePoint | None,
) -> Start:
    """Of a job that is claimed: before, the driver before may yet complete the restore that it has begun.

    ``is_anew``: no checkpoint covers anything, and the job's definition does not fit the one before. ``asked``: the
    checkpoint that somebody wants to go back to, which was looked at (:func:`~.restore.restore_point`). ``graph``: as
    it is going to run. Reads, writes nothing.
    """
    if is_anew:
        return Start(beginning(state))
    if asked is not None:
        return Start(asked)
    if not state.restored_epoch or state.restored != state.last_completed:
        return Start(None)  # there was no restore, or a checkpoint completed since: every subtask had been taken back
    interrupted = interrupted_restore(storage, job_id, state, graph, load_logs(storage, job_id, graph), mode)
    return Start(interrupted, is_journaled=interrupted is not None)


def interrupted_restore(
    storage: Storage,
    job_id: str,
    state: JobState,
    graph: JobGraph,
    logs: Mapping[SubtaskId, SubtaskLog],
    mode: RuntimeMode,
) -> RestorePoint | None:
    """The goal of the last restore, after which no checkpoint completed, if the driver that began it did not complete
    it: it died after it had taken some logs back and not others (R4). None if there is nothing to make up for.
    ``logs``: loaded.

    No query was started before all were back that there were then, so that going back once more, everywhere, is right.
    """
    anew = state.restored_epoch == state.anew_epoch
    epoch, by_split = state.restored_epoch, {vertex.uid for vertex in graph.vertices if vertex.splits}
    unfinished = _to_be_taken_back(logs, by_split, anew=anew)
    if mode == "batch":  # no Spark folders there: an attempt without its end is void in any case
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
    """A log that nobody has opened is that of a vertex which is new: it has nothing to go back from.

    Of a job that begins anew whoever opens the log of a subtask with splits voids what is in it from before
    (``is_outdated``). Not having been opened says nothing of it: a rescale may have brought the subtask back since, and
    the driver died before it began (R21)."""
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
