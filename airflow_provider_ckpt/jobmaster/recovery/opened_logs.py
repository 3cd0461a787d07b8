"""Opening of the subtasks' logs by the driver that owns the job (R8, R11)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType

from airflow_provider_ckpt.jobmaster.recovery.attempt_names import continues_at, first_attempts
from airflow_provider_ckpt.jobmaster.recovery.log_checks import check_closed, check_read, check_whole, is_outdated
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.recovery.restore import RestorePoint
from airflow_provider_ckpt.journal.events import SubtaskFinished
from airflow_provider_ckpt.journal.kinds.reconciliation import Reset
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.storage.layout import subtask_log_path, subtask_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog


def open_logs(
    journal: OwnedJournal,
    logs: Mapping[SubtaskId, SubtaskLog],
    epoch: int,
    mode: str,
    restore: RestorePoint | None,
    resets: Mapping[SubtaskId, Reset] = MappingProxyType({}),
) -> dict[SubtaskId, AttemptId]:
    """Open every log, which fences all earlier attempts. Return unfinished subtask → its attempt.

    A log may have an end that the journal lacks, because the previous driver died before it journaled the end. An end
    in the log is final (R11), so such a subtask is journaled as finished. From here on only the returned and later
    attempts append to the logs.

    Args:
        restore: Point to go back to; None to continue after all published entries.
        resets: Subtask whose result is lost → its reset.

    Raises SubtaskLogLostError or LogFencedError.
    """
    state = journal.state
    check_whole(state, logs)
    if restore is None:  # a restore voids all entries after the checkpoint
        check_read(state.graph(), logs)
    attempts = first_attempts(epoch, logs)
    check_closed(state, logs)
    for subtask, log in logs.items():
        is_from_scratch = restore is not None and restore.is_from_scratch
        is_void = is_from_scratch or is_outdated(log, state.valid_from(subtask.vertex))
        reset = resets.get(subtask)
        stays_closed = not is_void and reset is None
        if log.state.closed and stays_closed:
            _journal_finished(journal, subtask, log)
            del attempts[subtask]
            continue
        by_split = state.graph().vertex(subtask.vertex).splits
        resume_at = continues_at(log, batch=mode == "batch", by_split=by_split)
        if resume_at is None and restore is not None and (mode != "batch" or by_split):
            resume_at = restore.continues_at(subtask)
        if is_void or (reset is not None and not by_split):
            log.open(attempts[subtask], 0)
            continue
        positions = () if reset is None else reset.positions
        if log.open(attempts[subtask], resume_at, positions, unless_closed=stays_closed).closed and stays_closed:
            _journal_finished(journal, subtask, log)  # the previous driver has ended the log since it was loaded
            del attempts[subtask]
    return attempts


def void_removed_logs(journal: OwnedJournal, storage: Storage, epoch: int) -> None:
    """Void the logs of subtasks that a source with splits no longer has, if the source's old results are void.

    A rescale may bring such a subtask back, and consumers read its log before the subtask starts. The old entries must
    be void before that, because their splits are read again (R21).
    """
    state = journal.state
    for vertex in state.graph().vertices:
        since = state.valid_from(vertex.uid)
        if not vertex.splits or not since:
            continue
        logs = {
            subtask: SubtaskLog(storage, _path(state, subtask)) for subtask in _removed_subtasks(storage, state, vertex)
        }
        attempts = first_attempts(epoch, logs)
        for subtask, log in logs.items():
            log.load()
            if is_outdated(log, since):
                log.open(attempts[subtask], 0)


def _removed_subtasks(storage: Storage, state: JobState, vertex: JobVertex) -> list[SubtaskId]:
    names = storage.list(subtask_path(state.job_id, vertex.uid, 0).rpartition("/")[0])
    numbers = sorted(int(name) for name in names if name.isdecimal())
    return [SubtaskId.of(vertex.uid, number) for number in numbers if number >= vertex.parallelism]


def _path(state: JobState, subtask: SubtaskId) -> str:
    return subtask_log_path(state.job_id, subtask.vertex, subtask.number)


def _journal_finished(journal: OwnedJournal, subtask: SubtaskId, log: SubtaskLog) -> None:
    if subtask not in journal.state.finished:
        journal.write(SubtaskFinished(subtask, _owner(log), time.time()))


def _owner(log: SubtaskLog) -> str:
    return "" if log.state.opened is None else str(log.state.opened.attempt)
