"""The result partitions of a job that exist, with their sizes (FLIP-383)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.jobmaster.recovery.log_checks import is_outdated
from airflow_provider_ckpt.jobmaster.recovery.persisted_results import persisted_operators
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.storage.layout import partition_path, subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader
from airflow_provider_ckpt.subtasklog.lost_entries import lost_entries
from airflow_provider_ckpt.subtasklog.records import Batch


@dataclass(frozen=True)
class PartitionWithMetrics:
    """The size of a subtask's published result: rows, files, bytes of these files, and splits.

    ``splits`` is None if the subtask does not read splits. ``is_finished`` is True if the subtask's log has ended.
    """

    subtask: SubtaskId
    rows: int
    bytes: int
    files: int
    splits: int | None
    is_finished: bool


def partitions_with_metrics(storage: Storage, state: JobState) -> tuple[PartitionWithMetrics, ...]:
    """Return the partitions whose files all exist, in graph order; for a FINISHED job only persisted partitions.

    The function reads the subtasks' logs and lists their partitions.

    Raises the storage's errors.
    """
    if state.plan is None or state.status in (JobStatus.DELETING, JobStatus.DELETED):
        return ()
    graph = state.graph()
    uids = [vertex.uid for vertex in graph.vertices if graph.publishes(vertex.uid)]
    if state.status is JobStatus.FINISHED:
        uids = [*persisted_operators(state)]
    partitions = [_partition(storage, state, subtask) for subtask in graph.subtasks if subtask.vertex in uids]
    return tuple(partition for partition in partitions if partition is not None)


def _partition(storage: Storage, state: JobState, subtask: SubtaskId) -> PartitionWithMetrics | None:
    log = TailingLogReader(storage, subtask_log_path(state.job_id, subtask.vertex, subtask.number))
    if is_outdated(log, state.valid_from(subtask.vertex)):
        return None
    records = log.records()
    batches = [record for _, record in records if isinstance(record, Batch)]
    partition = partition_path(state.job_id, subtask.vertex, subtask.number)
    if not (batches or log.has_ended) or lost_entries(storage, partition, records):
        return None
    return PartitionWithMetrics(
        subtask,
        sum(batch.rows for batch in batches),
        sum(file.size for batch in batches for file in batch.files),
        sum(len(batch.files) for batch in batches),
        sum(len(batch.splits) for batch in batches) if state.graph().vertex(subtask.vertex).splits else None,
        log.has_ended,
    )
