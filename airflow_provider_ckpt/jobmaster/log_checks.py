"""Whether the logs of a job and of its subtasks have what is known to have been in them, and whether it counts."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.jobmaster.errors import SubtaskLogCutError, SubtaskLogLostError, SubtaskLogReopenedError
from airflow_provider_ckpt.journal.errors import CorruptJournalError
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.channel import channels
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.records import Open
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.storage.layout import vertices_path
from airflow_provider_ckpt.storage.storage import Storage


def check_journal(storage: Storage, state: JobState) -> None:
    """Raises CorruptJournalError: of a damaged journal, and of one that is gone while what the job wrote beside it is
    there. An absence is no answer then: the job is not new."""
    if state.damage:
        raise CorruptJournalError(job_id=state.job_id, reason="; ".join(state.damage))
    if not state.epoch and storage.list(vertices_path(state.job_id)):
        reason = "it holds nothing, though queries of the job have written beside it: bring it back from a backup"
        raise CorruptJournalError(job_id=state.job_id, reason=reason)


def check_whole(state: JobState, logs: Mapping[SubtaskId, LogReader]) -> None:
    """Raises SubtaskLogLostError if one ends before what the last completed checkpoint covers."""
    for subtask, snapshot in state.covering().items():
        if subtask in logs and snapshot.position >= max(1, logs[subtask].position):
            raise SubtaskLogLostError(
                log=logs[subtask].path,
                next=logs[subtask].position,
                covered=snapshot.position,
                checkpoint=state.last_completed,
            )


def check_read(graph: JobGraph, logs: Mapping[SubtaskId, SubtaskLog]) -> None:
    """``logs``: loaded. Raises SubtaskLogCutError if one ends before what a consumer has read of it. Nothing is written
    before: the numbers of what is gone are still free."""
    for subtask, log in logs.items():
        last = log.state.last_batch
        inputs = last.inputs if last is not None else {}
        for channel in channels(graph, subtask):
            read, producer = inputs.get(channel.key, 0), logs[channel.producer]
            if read > producer.position:
                producer.load()  # a driver before us may have written to it, and to ours, since it was loaded
            if read > producer.position:
                raise SubtaskLogCutError(log=producer.path, next=producer.position, consumer=subtask, read=read - 1)


def check_closed(state: JobState, logs: Mapping[SubtaskId, SubtaskLog]) -> None:
    """Raises SubtaskLogReopenedError: nobody would deploy a subtask that is finished, and nobody hear its end."""
    for subtask in sorted(state.finished & logs.keys()):
        log = logs[subtask]
        if not log.state.closed and not is_outdated(log, state.since(subtask.vertex)):
            raise SubtaskLogReopenedError(log=log.path, subtask=subtask)


def is_outdated(log: LogReader, since: int) -> bool:
    """Nothing in it counts: its vertex was given up, or the job begun anew without it, and it has come back."""
    epochs = [record.epoch for _, record in log.records() if isinstance(record, Open)]
    return bool(epochs) and max(epochs) < since
