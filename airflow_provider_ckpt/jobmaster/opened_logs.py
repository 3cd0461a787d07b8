"""The logs of the subtasks, in the hands of the driver that has opened them (R8, R11)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType

from airflow_provider_ckpt.jobmaster.attempts import continues_at, first_attempts
from airflow_provider_ckpt.jobmaster.log_checks import check_closed, check_read, check_whole, is_outdated
from airflow_provider_ckpt.jobmaster.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.restore import RestorePoint
from airflow_provider_ckpt.journal.events import SubtaskFinished
from airflow_provider_ckpt.journal.kinds.reconciliation import Reset
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.storage.layout import subtask_log_path, subtask_path
from airflow_provider_ckpt.storage.storage import Storage


def open_logs(
    journal: OwnedJournal,
    logs: Mapping[SubtaskId, SubtaskLog],
    epoch: int,
    mode: str,
    restore: RestorePoint | None,
    resets: Mapping[SubtaskId, Reset] = MappingProxyType({}),
) -> dict[SubtaskId, AttemptId]:
    """Fence every attempt before, in every log, and take note of the ends that are in a log and not in the journal:
    the tail of the log decides (R11), and the driver before may not have come to say so.

    Returns the attempt of every subtask that is not finished; nobody else, but for a later one, appends to its log from
    here on. ``resets``: those of which results are gone. Raises SubtaskLogLostError, LogFencedError.
    """
    state = journal.state
    check_whole(state, logs)
    if restore is None:  # else what was read behind the checkpoint is void
        check_read(state.graph(), logs)
    attempts = first_attempts(epoch, logs)
    check_closed(state, logs)
    for subtask, log in logs.items():
        void = (restore is not None and restore.is_anew) or is_outdated(log, state.since(subtask.vertex))
        reset = resets.get(subtask)
        stays = not void and reset is None
        if log.state.closed and stays:
            _finished(journal, subtask, log)
            del attempts[subtask]
            continue
        by_split = state.graph().vertex(subtask.vertex).splits
        goes_on = continues_at(log, batch=mode == "batch", by_split=by_split)
        if goes_on is None and restore is not None and (mode != "batch" or by_split):
            goes_on = restore.continues_at(subtask)
        if void or (reset is not None and not by_split):
            log.open(attempts[subtask], 0)
            continue
        positions = () if reset is None else reset.positions
        if log.open(attempts[subtask], goes_on, positions, unless_closed=stays).closed and stays:
            _finished(journal, subtask, log)  # the driver before has ended it since we read it
            del attempts[subtask]
    return attempts


def void_left_logs(journal: OwnedJournal, storage: Storage, epoch: int) -> None:
    """Of subtasks with splits that the job had before it began anew, or its source was given up, and has no more: a
    rescale may bring them back, and who reads the source reads them before they begin. Nothing of then is to be found
    in their logs, by whoever it is: what they had read is read again (R21)."""
    state = journal.state
    for vertex in state.graph().vertices:
        since = state.since(vertex.uid)
        if not vertex.splits or not since:
            continue
        logs = {one: SubtaskLog(storage, _path(state, one)) for one in _left(storage, state, vertex)}
        attempts = first_attempts(epoch, logs)
        for subtask, log in logs.items():
            log.load()
            if is_outdated(log, since):
                log.open(attempts[subtask], 0)


def _left(storage: Storage, state: JobState, vertex: JobVertex) -> list[SubtaskId]:
    """Subtasks that have left something, and are not in the graph."""
    names = storage.list(subtask_path(state.job_id, vertex.uid, 0).rpartition("/")[0])
    numbers = sorted(int(name) for name in names if name.isdecimal())
    return [SubtaskId.of(vertex.uid, number) for number in numbers if number >= vertex.parallelism]


def _path(state: JobState, subtask: SubtaskId) -> str:
    return subtask_log_path(state.job_id, subtask.vertex, subtask.number)


def _finished(journal: OwnedJournal, subtask: SubtaskId, log: SubtaskLog) -> None:
    if subtask not in journal.state.finished:
        journal.write(SubtaskFinished(subtask, _owner(log), time.time()))


def _owner(log: SubtaskLog) -> str:
    return "" if log.state.opened is None else str(log.state.opened.attempt)
