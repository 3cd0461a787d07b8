"""The results of operators with ``persist=True``: result partitions that outlive their job (FLIP-67, PR 8687).

No data is moved or copied, and there is no list besides the logs. The journal entry with FINISHED makes the results
persistent, because the clean-up after that entry deletes no folder that the logs name. ``ckpt delete`` deletes the
results with the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import dirname

from airflow_provider_ckpt.jobmaster.errors import NoSuchResultError, ResultNotPersistedError
from airflow_provider_ckpt.jobmaster.recovery.log_checks import check_journal, is_outdated, reopened
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.storage.layout import partition_path, subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.errors import PartitionFilesDamagedError
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader
from airflow_provider_ckpt.subtasklog.log_state import fold
from airflow_provider_ckpt.subtasklog.lost_entries import refuse_damaged
from airflow_provider_ckpt.subtasklog.records import Batch

_WITHOUT_RESULTS = (JobStatus.DELETING, JobStatus.DELETED)


@dataclass(frozen=True)
class PersistedResult:
    """The result of an operator of a FINISHED job, as Parquet files. The result of a drained job is complete, too.

    Args:
        files: URIs of the files for Spark, ordered by subtask and then as published; empty without rows.
        bytes: Size of the files.
        schema: Spark's schema as JSON text.
    """

    job_id: str
    operator: str
    files: tuple[str, ...]
    rows: int
    bytes: int
    schema: str


def persisted_operators(state: JobState) -> tuple[str, ...]:
    """Return the operators with ``persist=True``, in topological order; none for a deleted job."""
    if state.status in _WITHOUT_RESULTS:
        return ()
    return tuple(vertex.uid for vertex in state.graph().vertices if vertex.persist)


def read_persisted_result(storage: Storage, job_id: str, operator: str) -> PersistedResult:
    """Return the persisted result of ``operator``. Read the journal and the logs, and list the files.

    Raises ResultNotPersistedError, NoSuchResultError, SubtaskLogLostError, CorruptJournalError, the storage's errors,
    and PartitionFilesDamagedError if a file is gone or has another size.
    """
    state = Journal(storage, job_id).replay()
    check_journal(storage, state)
    operators = persisted_operators(state)
    is_new = state.plan is None and state.status not in _WITHOUT_RESULTS
    if operator not in operators and not (is_new and state.epoch):
        status = state.status or "not known under this root"
        raise NoSuchResultError(job_id=job_id, operator=operator, status=status, known=", ".join(operators) or "none")
    if state.plan is None or state.status is not JobStatus.FINISHED:
        raise ResultNotPersistedError(job_id=job_id, operator=operator, status=state.status or "not RUNNING yet")
    results = [_SubtaskResult.of(storage, state, subtask) for subtask in state.graph().vertex(operator).subtasks]
    for result in results:
        try:
            refuse_damaged(storage, result.partition, (file for batch in result.batches for file in batch.files))
        except PartitionFilesDamagedError as error:
            raise PartitionFilesDamagedError(
                "{uri} was published with {size} bytes and {found}: the result of {operator!r} of job {job_id!r} is "
                "no longer whole. Put the file back as it was, or run that job under another id and read the result "
                "of the new job",
                job_id=job_id,
                operator=operator,
                **error.data,
            ) from None
    batches = [(result.partition, batch) for result in results for batch in result.batches]
    return PersistedResult(
        job_id,
        operator,
        tuple(storage.spark_uri(f"{partition}/{file.path}") for partition, batch in batches for file in batch.files),
        sum(batch.rows for _, batch in batches),
        sum(file.size for _, batch in batches for file in batch.files),
        state.plan.schemas[operator],
    )


def persisted_folders(storage: Storage, state: JobState, vertex: JobVertex) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield (partition, its folders with persisted data) of each subtask of ``vertex``. The job must be FINISHED.

    Raises SubtaskLogLostError, and the storage's errors.
    """
    for subtask in vertex.subtasks:
        result = _SubtaskResult.of(storage, state, subtask)
        folders = frozenset(dirname(file.path) for batch in result.batches for file in batch.files)
        yield result.partition, folders


def unnamed_paths(storage: Storage, partition: str, named: frozenset[str]) -> Iterator[str]:
    """Yield the paths in a partition outside of the folders in ``named``. A folder outside is yielded as a whole."""
    for name in storage.list(partition):
        path = f"{partition}/{name}"
        inside = frozenset(folder.removeprefix(f"{name}/") for folder in named if folder.startswith(f"{name}/"))
        if inside:
            yield from unnamed_paths(storage, path, inside)
        elif name not in named:
            yield path


@dataclass(frozen=True)
class _SubtaskResult:
    partition: str
    batches: tuple[Batch, ...]

    @classmethod
    def of(cls, storage: Storage, state: JobState, subtask: SubtaskId) -> _SubtaskResult:
        """Return the result of ``subtask``. The job must be FINISHED, so that each log has its end."""
        path = subtask_log_path(state.job_id, subtask.vertex, subtask.number)
        log = TailingLogReader(storage, path)
        records = log.records()
        if not fold(records).closed or is_outdated(log, state.valid_from(subtask.vertex)):
            raise reopened(path, subtask)
        batches = tuple(record for _, record in records if isinstance(record, Batch))
        return cls(partition_path(state.job_id, subtask.vertex, subtask.number), batches)
