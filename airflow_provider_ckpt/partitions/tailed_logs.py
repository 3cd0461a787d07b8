"""The logs of a job's subtasks, read while they are written."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.log_reader import TailingLogReader
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage


class TailedLogs(dict[SubtaskId, TailingLogReader]):
    """Subtask → its log, which is tailed once for all readers.

    The logs of ``subtasks`` are there from the start. Any other log is added on its first use, because a rescale may
    have added its subtask.
    """

    def __init__(self, storage: Storage, job_id: str, subtasks: Iterable[SubtaskId] = ()) -> None:
        self._storage, self._job_id = storage, job_id
        super().__init__({one: self._reader(one) for one in subtasks})

    def __missing__(self, subtask: SubtaskId) -> TailingLogReader:
        return self.setdefault(subtask, self._reader(subtask))

    def _reader(self, subtask: SubtaskId) -> TailingLogReader:
        return TailingLogReader(self._storage, subtask_log_path(self._job_id, subtask.vertex, subtask.number))
