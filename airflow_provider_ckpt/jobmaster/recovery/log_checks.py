"""Checks that no entry is missing in the logs of a job and its subtasks."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.jobmaster.errors import SubtaskLogLostError
from airflow_provider_ckpt.journal.errors import CorruptJournalError
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.channel import channels
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.storage.layout import vertices_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import LogReader
from airflow_provider_ckpt.subtasklog.records import Open
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog


def check_journal(storage: Storage, state: JobState) -> None:
    """Refuse a damaged journal, or an empty journal although files of the job's vertices exist.

    Raises CorruptJournalError.
    """
    if state.damage:
        raise CorruptJournalError(job_id=state.job_id, reason="; ".join(state.damage))
    if not state.epoch and storage.list(vertices_path(state.job_id)):
        reason = "it is empty, although the job's folder has files of its queries: restore it from a backup"
        raise CorruptJournalError(job_id=state.job_id, reason=reason)


def check_whole(state: JobState, logs: Mapping[SubtaskId, LogReader]) -> None:
    """Refuse a log that ends before the position that the last completed checkpoint covers.

    Raises SubtaskLogLostError.
    """
    for subtask, snapshot in state.valid_snapshots().items():
        if subtask in logs and snapshot.position >= max(1, logs[subtask].position):
            raise SubtaskLogLostError(
                log=logs[subtask].path,
                next=logs[subtask].position,
                covered=snapshot.position,
                checkpoint=state.last_completed,
            )


def check_read(graph: JobGraph, logs: Mapping[SubtaskId, SubtaskLog]) -> None:
    """Refuse a log that ends before the position up to which a consumer has read it.

    Call this before anything is written, because new entries would get the numbers of lost entries. ``logs`` must be
    loaded.

    Raises SubtaskLogLostError.
    """
    for subtask, log in logs.items():
        last = log.state.last_batch
        inputs = last.inputs if last is not None else {}
        for channel in channels(graph, subtask):
            read, producer = inputs.get(channel.key, 0), logs[channel.producer]
            if read > producer.position:
                producer.load()  # an earlier driver may have written to both logs since this one was loaded
            if read > producer.position:
                raise SubtaskLogLostError(
                    "{log} ends before entry {next}, and {consumer} has read it up to entry {read}: entries were "
                    "removed; bring them back from a backup, or run the job under another id",
                    log=producer.path,
                    next=producer.position,
                    consumer=subtask,
                    read=read - 1,
                )


def check_closed(state: JobState, logs: Mapping[SubtaskId, SubtaskLog]) -> None:
    """Refuse a finished subtask whose log has no end, because the coordinator deploys no finished subtask to end it.

    Raises SubtaskLogLostError.
    """
    for subtask in sorted(state.finished & logs.keys()):
        log = logs[subtask]
        if not log.state.closed and not is_outdated(log, state.valid_from(subtask.vertex)):
            raise reopened(log.path, subtask)


def reopened(log: str, subtask: SubtaskId) -> SubtaskLogLostError:
    """Return the error for a log without an end whose subtask has ended according to the journal."""
    return SubtaskLogLostError(
        "{log} has no end, and the journal has {subtask} at its end, or finished: entries were removed; bring them "
        "back from a backup, or run the job under another id",
        log=log,
        subtask=subtask,
    )


def is_outdated(log: LogReader, since: int) -> bool:
    """Return whether all entries of the log are void, because all its attempts are from before epoch ``since``."""
    epochs = [record.epoch for _, record in log.records() if isinstance(record, Open)]
    return bool(epochs) and max(epochs) < since
