"""What subtasks tell the JobMaster, most of it for the coordinator.

A report names its world (epoch, subtask, attempt) or is dropped (R22), and has a JSON form (``coordinator.wire``).
It begins with the id of the task: ``SubtaskDone(*task_id)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.coordinator.failures import DeclineReason
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.batch_progress import BatchProgress
from airflow_provider_ckpt.model.file_status import ChangedFile
from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.pause_reason import REASON, PauseReason
from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.subtask_id import SubtaskId


@dataclass(frozen=True)
class SubtaskOpened:
    """``attempt``, the next one of the subtask in this epoch, has opened its log: the one before is fenced, whatever it
    still says. Answered by DeploySubtask. The first attempts of an epoch do not say so: the coordinator is given them.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId


@dataclass(frozen=True)
class SubtaskRunning:
    """The subtask's query runs (again), under its plan number ``plan``: it can take barriers."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    plan: int = 0


@dataclass(frozen=True)
class SubtaskAtEndOfData:
    """End of data is in the subtask's log."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId


@dataclass(frozen=True)
class SubtaskDone:
    """The subtask carried out FinishSubtask: end of partition is in its log, its resources are back."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId


@dataclass(frozen=True)
class SubtaskFailed:
    """``cause``: what went wrong, in words. ``error``, ``traceback``: of the user's own code, if it was that."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    cause: str
    terminal: bool = False
    error: str | None = None
    traceback: str | None = None
    driver_is_lost: bool = False
    """What every task of the driver needs is gone: no next attempt there comes further (Spark's JVM)."""
    worker_is_lost: bool = False
    """It is not the subtask that failed: nobody runs it any more. Its next attempt is for another worker to begin."""
    result_is_lost: bool = False
    """What it reads is gone: no next attempt of it comes further, and the next run produces that again."""
    stack_trace: str = ""
    """Of the whole exception, as Python prints it: for the log, if this failure is the first one."""


@dataclass(frozen=True)
class SubtaskFenced:
    """The subtask found a later attempt in its log, ``by``, or a later epoch in the journal (None). This driver is
    over, unless it was the next attempt of this epoch. For the JobMaster, not for the coordinator."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    cause: str
    by: AttemptId | None = None


@dataclass(frozen=True)
class DataAvailable:
    """Something was appended to the subtask's log: ``consumers`` look at it. For the JobMaster, which tells them, not
    for the coordinator. No harm is done by one of an attempt that is over."""

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
    """What went wrong, for the cause of a run that ends because of it."""


@dataclass(frozen=True)
class SourceAtEnd:
    """An inline bounded source, or an ended input edge, of a vertex is covered by published batches."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    uid: str
    batch_id: int
    droppable: bool = True
    """False if it is the vertex's last source: then the vertex ends instead."""


@dataclass(frozen=True)
class SubtaskPaused:
    """The query stands still, as PauseSubtask asked: newest offsets = newest commits = ``batch_id``, -1 if there is
    none."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    reason: PauseReason = field(metadata=REASON)
    batch_id: int


@dataclass(frozen=True)
class ReconfigurationPrepared:
    """The query of ``trial`` is made, and was tried: as far as can be told, it can take the place of the one that
    runs. ``digests``: by operator, of what its functions were read from."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    trial: str
    digests: Mapping[str, str] = field(default_factory=dict, hash=False, metadata=LATER)


@dataclass(frozen=True)
class ReconfigurationUnfit:
    """The query of ``trial`` cannot take the place of the one that runs."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    trial: str
    cause: str


@dataclass(frozen=True)
class SplitsCompleted:
    """The entry that completes the splits is in the subtask's log, at ``position``. It comes before the acknowledgement
    of any barrier behind that entry. ``together``: as many as the subtask reads together now: it is to be handed out
    more ahead for it."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    splits: tuple[str, ...]
    position: int
    together: int = 1


@dataclass(frozen=True)
class SplitsReturned:
    """The subtask has not begun these, and does not read them unless they are handed out to it once more: it was handed
    many, as they were small, and they turned out to be large. ``together``: as many as it reads together now."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    splits: tuple[str, ...]
    together: int


@dataclass(frozen=True)
class QueryMeasured:
    """A micro-batch is committed; None: the query had nothing to do for a while. Told if the job has controllers."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    progress: BatchProgress | None


@dataclass(frozen=True)
class BatchPublished:
    """A micro-batch of a live source is in the subtask's log: a checkpoint that is nearly due is taken now. Told to a
    JobMaster of the same process: of any other one's it would be a write for each batch."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId


@dataclass(frozen=True)
class ReadingBegun:
    """The subtask's query has published its first batch, or found nothing to read (``published`` is False). For the
    JobMaster of the same process, not for the coordinator: ``stop_after`` counts from there."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    published: bool


@dataclass(frozen=True)
class SourceLogGrown:
    """Spark's log of an edge that the subtask reads has grown to several times what it was. The next attempt begins
    without what is past in it. Told at each tenth batch until then."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId


@dataclass(frozen=True)
class FilesChanged:
    """Files of source ``uid`` changed after they were read. ``files``: the first of them; ``count``: how many there
    are; ``unread``: bytes that were not read, as far as it is known."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    uid: str
    files: tuple[ChangedFile, ...]
    count: int
    unread: int


@dataclass(frozen=True)
class FileAwaited:
    """Source ``uid`` has waited for ``file`` for ``seconds``, because it is still being written. Reported after a usual
    wait, and after twice as many seconds each time."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    uid: str
    file: str
    seconds: float


@dataclass(frozen=True)
class LeftBehind:
    """The subtask comes to its end of data, and something is lost or left unread with it: ``what``, in words."""

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
    what: str


@dataclass(frozen=True)
class SinkAwaited:
    """The target of ``sink`` has not taken the subtask's rows for ``seconds``, because of ``cause``. The subtask waits
    and tries again. It reports that after 1, 2, 4, 8, ... tries."""

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
    | ReadingBegun
    | SourceLogGrown
    | FilesChanged
    | FileAwaited
    | LeftBehind
    | SinkAwaited
)
"""For the coordinator."""
TaskReport = Report | SubtaskFenced | DataAvailable
"""All that a task says."""
