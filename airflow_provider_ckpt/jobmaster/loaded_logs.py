"""Loading of the logs of a job's subtasks, as far as they are written."""

from __future__ import annotations

from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage


def load_logs(storage: Storage, job_id: str, graph: JobGraph) -> dict[SubtaskId, SubtaskLog]:
    logs: dict[SubtaskId, SubtaskLog] = {}
    for subtask in graph.subtasks:
        log = SubtaskLog(storage, subtask_log_path(job_id, subtask.vertex, subtask.number))
        log.load()
        logs[subtask] = log
    return logs
