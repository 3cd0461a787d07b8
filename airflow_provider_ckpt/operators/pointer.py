"""The pointer to a job in Airflow's task state store, and the facts about the job for the *Storage* tab.

The journal is the authority. A retry uses the pointer only to find its job, and to detect that a user cleared the task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_ckpt.client.job_facts import full_result
from airflow_provider_ckpt.hooks.application import Submission
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import ckpt_command
from airflow_provider_ckpt.printable import each_text, one_line
from airflow_provider_ckpt.status.status_line import LineKind, StatusLine
from airflow_provider_ckpt.storage.refusal import UNREADABLE

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState

KEY = "ckpt"


class SubmissionStatus(str, Enum):
    """Status of a task whose driver has not claimed the job, or has been fenced."""

    SUBMITTED = "SUBMITTED"
    FENCED = "FENCED"

    __str__ = str.__str__

    @property
    def ended_well(self) -> bool:
        return False


_STATUS: Mapping[str, JobStatus | SubmissionStatus] = {
    LineKind.FINISHED: JobStatus.FINISHED,
    LineKind.STOPPED: JobStatus.STOPPED,
    LineKind.FAILED: JobStatus.FAILED,
    LineKind.REFUSED: JobStatus.FAILED,
    LineKind.FENCED: SubmissionStatus.FENCED,
}


class TaskStateStore(Protocol):
    """The part of ``context["task_state_store"]`` that this module uses."""

    def get(self, key: str, default: Any = None) -> Any: ...
    def set(self, key: str, value: Any) -> None: ...


_CHANGES_WHILE_DEFERRED = ("checkpoint", "released", "finished_operators")
_SUMMARY = (
    "job_id",
    "status",
    "epoch",
    "checkpoint",
    "released",
    "finished_operators",
    "late_rows",
    "unfit_rows",
    "malformed_rows",
    "changed_files",
)


@dataclass(frozen=True)
class Pointer:
    """Value in the task state store under :data:`KEY`: the task's job, and facts about that job for the user."""

    job_id: str
    root: str
    """Root URI, without secrets."""
    try_number: int
    max_tries: int
    """``max_tries`` of the task instance. Airflow raises it when a user clears the task."""
    generation: int = 0
    """Number in the job id's suffix ``~g<number>``; 0 without a suffix.

    A clear with ``on_clear="restart"`` raises it.
    """
    status: JobStatus | SubmissionStatus = SubmissionStatus.SUBMITTED
    """Status that this task's driver reported last. SUBMITTED before the first report."""
    epoch: int | None = None
    checkpoint: int | None = None
    """Last completed checkpoint."""
    released: int | None = None
    """Last released checkpoint."""
    finished_operators: tuple[str, ...] = ()
    late_rows: int = 0
    """Number of rows dropped as late since the job began, up to the last completed checkpoint."""
    changed_files: int = 0
    """Number of source files that changed after they were read, since the job began."""
    unfit_rows: int = 0
    """Number of rows with an unusable event time since the job began, up to the last completed checkpoint."""
    malformed_rows: int = 0
    """Number of rows that do not fit their source's schema since the job began, up to the last completed checkpoint."""
    application_id: str | None = None
    spark_ui: str | None = None
    """URL of Spark's UI, as the last driver reported it."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Sink -> URI of its folder, without secrets. Sinks without a folder are omitted."""
    clear_number: int | None = None
    """Number of clears of any task in the Dag run. None if Airflow does not count them."""
    submission: Submission | None = None
    """Submission of the driver that a deferred task waits for."""
    is_deferred: bool = False
    """True while the task waits in the triggerer, which cannot write the pointer.

    The JSON then omits ``checkpoint``, ``released`` and ``finished_operators``, which change meanwhile.
    """
    recovery: tuple[str, ...] = ()
    """Lines about a resumed job in batch mode: which results are kept, and what runs again for which reason."""

    def to_json(self) -> dict[str, Any]:
        value = {**asdict(self), "status": str(self.status), "finished_operators": list(self.finished_operators)}
        value["recovery"] = list(self.recovery)
        for name in ("submission", "recovery"):
            if not value[name]:
                del value[name]
        if value.pop("is_deferred"):
            for name in _CHANGES_WHILE_DEFERRED:
                del value[name]
            show = ckpt_command("show", self.job_id, root=self.root)
            value["progress"] = f"the task is deferred; `{show}` shows how far the job is"
        return {name: each_text(field, one_line) for name, field in value.items()}

    def summary(self) -> dict[str, Any]:
        """Return the result of the Airflow operator."""
        return {name: value for name, value in self.to_json().items() if name in _SUMMARY}

    @classmethod
    def from_json(cls, value: Any) -> Pointer | None:
        """Return the pointer with the fields that a retry needs.

        None if ``value`` has another form (users can edit it).
        """
        if not isinstance(value, Mapping):
            return None
        texts = [value.get("job_id"), value.get("root")]
        numbers = [value.get("try_number"), value.get("max_tries"), value.get("generation")]
        if not all(isinstance(text, str) for text in texts) or not all(isinstance(number, int) for number in numbers):
            return None
        epoch, clear_number = value.get("epoch"), value.get("clear_number")
        return cls(
            job_id=value["job_id"],
            root=value["root"],
            try_number=value["try_number"],
            max_tries=value["max_tries"],
            generation=value["generation"],
            epoch=epoch if isinstance(epoch, int) else None,
            clear_number=clear_number if isinstance(clear_number, int) else None,
            submission=Submission.from_json(value.get("submission")),
        )

    def after(self, line: StatusLine) -> Pointer:
        """Return the pointer with the facts of a driver's status line. Fields that the line lacks do not change."""
        data = line.data
        status = _status(line)
        # The driver reports 0 if there is no such checkpoint.
        completed, released = data.get("checkpoint") or None, data.get("released") or None
        if "released" not in data and status.ended_well:
            # A job that ends well has released everything (R16). If a gate holds output, the driver sends `released`.
            released = completed
        operators = data.get("finished_operators")
        return replace(
            self,
            status=status,
            epoch=_new_or(data.get("epoch"), self.epoch),
            checkpoint=_new_or(completed, self.checkpoint),
            released=_new_or(released, self.released),
            finished_operators=self.finished_operators if operators is None else tuple(operators),
            late_rows=_new_or(data.get("late_rows"), self.late_rows),
            changed_files=_new_or(data.get("changed_files"), self.changed_files),
            unfit_rows=_new_or(data.get("unfit_rows"), self.unfit_rows),
            malformed_rows=_new_or(data.get("malformed_rows"), self.malformed_rows),
            application_id=_new_or(data.get("application_id"), self.application_id),
            spark_ui=_new_or(data.get("spark_ui"), self.spark_ui),
            outputs=_new_or(data.get("outputs"), self.outputs),
            recovery=tuple(_new_or(data.get("recovery"), self.recovery)),
        )

    def after_end(self, result: Mapping[str, Any]) -> Pointer:
        """Return the pointer with the job's end from ``result`` (keys of :meth:`summary`); unchanged if malformed."""
        try:
            return self._after_end(result)
        except UNREADABLE:  # another release wrote it: keep the values for display
            return self

    def _after_end(self, result: Mapping[str, Any]) -> Pointer:
        status = result["status"]
        return replace(
            self,
            status=self.status if status is None else JobStatus(status),
            epoch=result["epoch"],
            checkpoint=result["checkpoint"],
            released=result["released"],
            finished_operators=tuple(result["finished_operators"]),
            late_rows=result["late_rows"],
            changed_files=result["changed_files"],
            unfit_rows=result["unfit_rows"],
            malformed_rows=result["malformed_rows"],
        )

    def as_of(self, state: JobState) -> Pointer:
        """Return the pointer with the progress that the journal shows. The pointer's status does not change."""
        from airflow_provider_ckpt.status.reconciled import short_table  # here, so that Dags load without the journal

        recovery = () if state.reconciled is None else tuple(short_table(state.reconciled, self.job_id, self.root))
        return replace(self._after_end(full_result(state)), status=self.status, recovery=recovery)


def _status(line: StatusLine) -> JobStatus | SubmissionStatus:
    """Return the job's status that the line reports, or else the status that the line's kind implies."""
    status = line.data.get("status")
    return JobStatus(status) if status in set(JobStatus) else _STATUS.get(line.kind, JobStatus.RUNNING)


def _new_or(new: Any, old: Any) -> Any:
    return old if new is None else new


class PointerWriter:
    """Writer of the pointer in the task state store, for the thread that reads the driver's output.

    A frequent change, such as a checkpoint, is written at most every ``interval`` seconds, and any other change at
    once. A failed write is repeated with the next write, because a display must not stop the job.
    """

    def __init__(
        self,
        store: TaskStateStore,
        pointer: Pointer,
        *,
        clock: Callable[[], float],
        warn: Callable[[str, Exception], None],
        interval: float = 5.0,
    ) -> None:
        self.pointer = pointer
        self.last: StatusLine | None = None
        self._store = store
        self._clock = clock
        self._warn = warn
        self._interval = interval
        self._written: Pointer | None = None
        self._written_at = clock()

    def write(self) -> None:
        """Write the pointer. Raises the store's errors, because a retry relies on this write before the submission."""
        self._store.set(KEY, self.pointer.to_json())
        self._written, self._written_at = self.pointer, self._clock()

    def record(self, line: StatusLine) -> None:
        self.last = line
        self.pointer = self.pointer.after(line)
        if not line.is_frequent or self._clock() - self._written_at >= self._interval:
            self.flush()

    def flush(self) -> None:
        if self.pointer == self._written:
            return
        try:
            self.write()
        except Exception as error:
            self._written_at = self._clock()
            self._warn("Could not update the pointer in the task state store: %s", error)
