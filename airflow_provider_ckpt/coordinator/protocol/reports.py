"""The reports that subtasks send to the JobMaster, most of them for the coordinator.

A report names its epoch, subtask and attempt, and is dropped if they are not current (R22). Its JSON form is in
``coordinator.protocol.wire``. Its first fields are the task's id: ``SubtaskDone(*task_id)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import DeclineReason
from airflow_provider_ckpt.model.file_status import ChangedFile
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.pause_reason import REASON, PauseReason
from airflow_provider_ckpt.model.progress import BatchProgress, InputProgress, Snapshot


@dataclass(frozen=True)
class SubtaskOpened:
    """Report that ``attempt``, the subtask's next attempt in this epoch, has opened its log.

    The previous attempt is fenced, so its later reports do not count. The answer is DeploySubtask. The first attempts
    of an epoch do not send this report.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId


@dataclass(frozen=True)
class SubtaskRunning:
    """Report that the subtask's query runs under plan number ``plan``. The subtask can append barriers."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    plan: int = 0


@dataclass(frozen=True)
class SubtaskAtEndOfData:
    """Report that the subtask's log has the end of data."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId


@dataclass(frozen=True)
class SubtaskDone:
    """Report that FinishSubtask is carried out: the log has the end of partition, and the resources are freed."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId


@dataclass(frozen=True)
class SubtaskFailed:
    """Report that the subtask failed. ``error`` and ``traceback`` are set only if the user's code failed."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    cause: str
    terminal: bool = False
    error: str | None = None
    traceback: str | None = None
    driver_is_lost: bool = False
    """True if every task of this driver lacks Spark's JVM, so that no next attempt in the driver can succeed."""
    worker_is_lost: bool = False
    """True if the worker is gone, but the subtask has not failed. Another worker must begin the next attempt."""
    result_is_lost: bool = False
    """True if the subtask's input is gone, so that no next attempt can succeed. The next run produces new input."""
    stack_trace: str = ""
    """The stack trace of the whole exception. It is logged if the failure restarts the subtask or ends the run."""


@dataclass(frozen=True)
class SubtaskFenced:
    """Report that the subtask found a later attempt ``by`` in its log, or a later epoch in the journal (``by`` None).

    The driver must stop, unless ``by`` is the next attempt of the same epoch. The JobMaster handles this report, not
    the coordinator.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    cause: str
    by: AttemptId | None = None


@dataclass(frozen=True)
class DataAvailable:
    """Report that the subtask's log has a new entry, so that ``consumers`` must read it.

    The JobMaster notifies the consumers; the coordinator does not get the report. A report of an earlier attempt does
    no harm.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    consumers: tuple[SubtaskId, ...]


@dataclass(frozen=True)
class BarrierAcknowledged:
    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    checkpoint: int
    snapshot: Snapshot


@dataclass(frozen=True)
class BarrierDeclined:
    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    checkpoint: int
    reason: DeclineReason
    detail: str = ""
    """The error as text. It becomes the cause of the run's end if too many barriers are declined."""


@dataclass(frozen=True)
class SourceAtEnd:
    """Report that the query has read ``uid`` (bounded source or input edge) to its end, and published it all."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    uid: str
    batch_id: int
    droppable: bool = True
    """True if the query can continue without the source; False if the query ends, because this is its last source."""


@dataclass(frozen=True)
class SubtaskPaused:
    """Report that the query is paused after batch ``batch_id`` (-1: no batch), as PauseSubtask requested."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    reason: PauseReason = field(metadata=REASON)
    batch_id: int


@dataclass(frozen=True)
class ReconfigurationPrepared:
    """Report that the query of ``trial`` was built and tried, and can probably replace the running query.

    ``digests``: operator → digest of the files with its function.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    trial: str
    digests: Mapping[str, str] = field(default_factory=dict, hash=False, metadata=OMIT_EMPTY)


@dataclass(frozen=True)
class ReconfigurationUnfit:
    """Report that the query of ``trial`` cannot replace the running query. ``cause`` is why."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    trial: str
    cause: str


@dataclass(frozen=True)
class SplitsCompleted:
    """Report that the subtask's log has the entry that completes ``splits``. The entry is at ``position``.

    The report precedes the acknowledgement of any barrier after that entry. ``together`` is the number of splits that
    the subtask now reads together. The higher this number, the more splits are assigned in advance.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    splits: tuple[str, ...]
    position: int
    together: int = 1


@dataclass(frozen=True)
class SplitsReturned:
    """Report that the subtask returns splits that it has not begun, so that they can be assigned again.

    ``together`` is the number of splits that the subtask now reads together.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    splits: tuple[str, ...]
    together: int


@dataclass(frozen=True)
class QueryMeasured:
    """Report of a committed micro-batch, or of an idle query (``progress`` is None).

    If the job has controllers, every micro-batch is reported. Otherwise ``overview_interval`` passes between reports.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    progress: BatchProgress | None
    inputs: Mapping[str, InputProgress] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Source or edge uid → its progress in this attempt. Rows are totals, so a lost report does no harm."""


@dataclass(frozen=True)
class BatchPublished:
    """Report that the subtask's log has a micro-batch of a live source. The next checkpoint may then
    come early.

    Only a JobMaster in the same process gets this report, because elsewhere it would cost a write for each batch.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId


@dataclass(frozen=True)
class ReadingBegun:
    """Report that the query has published its first batch, or has found nothing to read (``published`` is False).

    In a JobMaster in the same process, the time ``stop_after`` begins with this report. The coordinator does not get
    the report.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    published: bool


@dataclass(frozen=True)
class SourceLogGrown:
    """Report that Spark's log of an input edge is too large, repeated at every tenth batch. The coordinator then
    restarts the subtask, because the next attempt has a short log."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId


@dataclass(frozen=True)
class FilesChanged:
    """Report that files of source ``uid`` changed after they were read.

    Attributes:
        files: the first few of the changed files.
        count: number of changed files.
        unread: minimum number of bytes in all changed files that were not read.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    uid: str
    files: tuple[ChangedFile, ...]
    count: int
    unread: int


@dataclass(frozen=True)
class FileAwaited:
    """Report that source ``uid`` has waited ``seconds`` for ``file``, because the file is still being written.

    The first report comes after the usual waiting time. Each further report comes after twice as many seconds.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    uid: str
    file: str
    seconds: float


@dataclass(frozen=True)
class InputLeftUnread:
    """Report that data is lost or unread at the subtask's end of data. ``what`` describes the data."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    what: str


@dataclass(frozen=True)
class SinkAwaited:
    """Report that the target of ``sink`` has not accepted the subtask's rows for ``seconds``, because of ``cause``.

    The subtask tries again. It sends this report after 1, 2, 4, 8, ... tries.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    sink: str
    seconds: float
    cause: str


Report = (
    SubtaskOpened
    | SubtaskRunning
    | SubtaskAtEndOfData
    | SubtaskDone
    | SubtaskFailed
    | BarrierAcknowledged
    | BarrierDeclined
    | SourceAtEnd
    | SubtaskPaused
    | ReconfigurationPrepared
    | ReconfigurationUnfit
    | SplitsCompleted
    | SplitsReturned
    | QueryMeasured
    | BatchPublished
    | SourceLogGrown
    | FilesChanged
    | FileAwaited
    | InputLeftUnread
    | SinkAwaited
)
"""Reports for the coordinator."""
TaskReport = Report | SubtaskFenced | DataAvailable | ReadingBegun
"""All reports of a task."""
