"""Progress that the previous JobMaster did not journal, recovered from the subtask logs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_ckpt.coordinator.state.enumerator import RestoredSplits
from airflow_provider_ckpt.jobmaster.recovery.frozen_splits import read_frozen_splits
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.recovery.split_progress import readers_wanted, restored_splits
from airflow_provider_ckpt.journal.events import SubtaskFinished
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.split import Ranges, Split, numbers
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader
from airflow_provider_ckpt.subtasklog.log_state import fold


def note_finished(journal: OwnedJournal, logs: Mapping[SubtaskId, TailingLogReader]) -> None:
    """Journal the subtasks whose logs are closed but that the journal does not list as finished.

    The end of the log decides (R11). The previous JobMaster may have died before it journaled the end.
    """
    for subtask, log in logs.items():
        found = fold(log.records())
        if found.closed and found.opened is not None and subtask not in journal.state.finished:
            journal.write(SubtaskFinished(subtask, str(found.opened.attempt), time.time()))


def splits_left(
    storage: Storage, job_id: str, state: JobState, logs: Mapping[SubtaskId, TailingLogReader]
) -> dict[str, RestoredSplits]:
    """Return the unread splits of each source, by uid.

    Splits that the previous JobMaster assigned stay with their attempts (W13).
    """
    lists: dict[str, tuple[Split, ...]] = {}
    for vertex in state.graph().vertices:
        frozen = state.frozen.get(vertex.uid)
        is_over = state.end_of_data.issuperset(vertex.subtasks)
        if vertex.splits and frozen is not None and frozen.path is not None and not is_over:
            lists[vertex.uid] = read_frozen_splits(storage, f"{job_id}/{frozen.path}")
    assert state.definition is not None
    declared = {uid: state.definition.sources[uid].parallelism for uid in lists}
    readers = {uid: readers_wanted(state, uid, width or 1) for uid, width in declared.items()}
    found = restored_splits(state, state.graph(), logs, lists, readers)
    return {uid: _with_assigned(one, state.splits_assigned.get(uid, {})) for uid, one in found.items()}


def _with_assigned(splits: RestoredSplits, assigned: Mapping[SubtaskId, Ranges]) -> RestoredSplits:
    return replace(splits, assigned={subtask: sorted(numbers(each)) for subtask, each in assigned.items()})
