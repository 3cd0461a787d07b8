"""The results of operators with ``persist=True``: result partitions that outlive their job, as Flink's cluster
partitions do (FLIP-67, PR 8687).

Nothing is moved or copied for it, and there is no list of them that could disagree: they are promoted by the entry that
says FINISHED, behind which the clean-up leaves alone what the logs name. They go with the job (``ckpt delete``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import dirname

from airflow_provider_ckpt.jobmaster.errors import (
    NoSuchResultError,
    ResultDamagedError,
    ResultNotPersistedError,
    SubtaskLogReopenedError,
)
from airflow_provider_ckpt.jobmaster.log_checks import check_journal, is_outdated
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.errors import PartitionFilesDamagedError
from airflow_provider_ckpt.partitions.log_reader import TailingLogReader
from airflow_provider_ckpt.partitions.log_state import fold
from airflow_provider_ckpt.partitions.published_files import refuse_damaged
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.storage.layout import partition_path, subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage

_WITHOUT_RESULTS = (JobStatus.DELETING, JobStatus.DELETED)


@dataclass(frozen=True)
class PersistedResult:
    """What an operator of a FINISHED job gave, in Parquet. ``files``: their URIs as Spark takes them, in the order of
    the subtasks, and of what each published; none if there were no rows. ``rows``: None if it is not known of some (of
    an entry that an earlier release wrote); ``bytes``: of the files. ``schema``: Spark's, as its JSON text. It is all
    that there was to read, also of a job that was drained: only unbounded sources end where they stand."""

    job_id: str
    operator: str
    files: tuple[str, ...]
    rows: int | None
    bytes: int
    schema: str


def persisted_operators(state: JobState) -> tuple[str, ...]:
    """Those whose results outlive the job, or are going to, in topological order. None of a deleted one."""
    if state.status in _WITHOUT_RESULTS:
        return ()
    return tuple(vertex.uid for vertex in state.graph().vertices if vertex.persist)


def read_persisted_result(storage: Storage, job_id: str, operator: str) -> PersistedResult:
    """``storage``: of the root. Reads the journal and the logs, and lists the files. Raises ResultNotPersistedError,
    NoSuchResultError, SubtaskLogReopenedError, ResultDamagedError for a file that is gone or has another size,
    CorruptJournalError, and the storage's errors."""
    state = Journal(storage, job_id).replay()
    check_journal(storage, state)
    known = persisted_operators(state)
    is_new = state.plan is None and state.status not in _WITHOUT_RESULTS
    if operator not in known and not (is_new and state.epoch):
        shown = state.status or "not known under this root"
        raise NoSuchResultError(job_id=job_id, operator=operator, status=shown, known=", ".join(known) or "none")
    if state.plan is None or state.status is not JobStatus.FINISHED:
        raise ResultNotPersistedError(job_id=job_id, operator=operator, status=state.status or "not RUNNING yet")
    of_subtasks = [_SubtaskResult.of(storage, state, one) for one in state.graph().vertex(operator).subtasks]
    for one in of_subtasks:
        try:
            refuse_damaged(storage, one.partition, (file for batch in one.batches for file in batch.files))
        except PartitionFilesDamagedError as error:
            raise ResultDamagedError(job_id=job_id, operator=operator, **error.data) from None
    batches = [(one.partition, batch) for one in of_subtasks for batch in one.batches]
    counts = [batch.rows if batch.files else 0 for _, batch in batches]
    return PersistedResult(
        job_id,
        operator,
        tuple(storage.spark_uri(f"{place}/{file.path}") for place, batch in batches for file in batch.files),
        None if None in counts else sum(count or 0 for count in counts),
        sum(file.size for _, batch in batches for file in batch.files),
        state.plan.schemas[operator],
    )


def persisted_folders(storage: Storage, state: JobState, vertex: JobVertex) -> Iterator[tuple[str, frozenset[str]]]:
    """Of each subtask of a vertex of a FINISHED job its partition, and the folders in it that hold what is kept.
    Raises SubtaskLogReopenedError, and the storage's errors: a log that cannot be read does not say that nothing is."""
    for subtask in vertex.subtasks:
        found = _SubtaskResult.of(storage, state, subtask)
        named = frozenset(dirname(file.path) for batch in found.batches for file in batch.files)
        yield found.partition, named


def unnamed_places(storage: Storage, partition: str, named: frozenset[str]) -> Iterator[str]:
    """What a partition holds besides the folders ``named``, from the top: as few places as say it."""
    for name in storage.list(partition):
        path = f"{partition}/{name}"
        inside = frozenset(one.removeprefix(f"{name}/") for one in named if one.startswith(f"{name}/"))
        if inside:
            yield from unnamed_places(storage, path, inside)
        elif name not in named:
            yield path


@dataclass(frozen=True)
class _SubtaskResult:
    partition: str
    batches: tuple[Batch, ...]

    @classmethod
    def of(cls, storage: Storage, state: JobState, subtask: SubtaskId) -> _SubtaskResult:
        """``state``: of a job that is FINISHED, so that each log has its end."""
        path = subtask_log_path(state.job_id, subtask.vertex, subtask.number)
        log = TailingLogReader(storage, path)
        records = log.records()
        if not fold(records).closed or is_outdated(log, state.since(subtask.vertex)):
            raise SubtaskLogReopenedError(log=path, subtask=subtask)
        batches = tuple(record for _, record in records if isinstance(record, Batch))
        return cls(partition_path(state.job_id, subtask.vertex, subtask.number), batches)
