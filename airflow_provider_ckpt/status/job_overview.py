"""The overview of a job: one value that shows its progress, its lag and its problems.

The JobMaster writes it every few seconds, and `ckpt show`, the page in Airflow, metrics and lineage read it. Its size
depends on the number of operators and subtasks, and not on the age of the job. The file is ``overview/current.json`` in
the job's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from airflow_provider_ckpt.model.checkpoint_view import CheckpointKind, CheckpointStatus
from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY, fields_to_json, from_json
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, ObjectNotFoundError
from airflow_provider_ckpt.storage.layout import overview_path
from airflow_provider_ckpt.storage.storage import Storage

KIND = "job-overview"
VERSION = 1
"""Version of the format. A version may get new keys.

If a key is removed or changes its meaning, the version number increases.
"""
MOST_BYTES = 64 * 1024 * 1024
CHECKPOINTS = 20
"""Maximum number of checkpoints in an overview, which has the newest."""
UNCHANGED = 60.0
"""Seconds after which an overview is written again, although only its times differ."""
LATE = 15.0
"""Seconds by which a write of an overview may be late."""
EVENTS = 100
"""Maximum number of events in an overview, which has the newest."""

T = TypeVar("T")
Unit = Literal["files", "splits", "records"]
Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class SourceOverview:
    """Progress of one source. Counts of rows are since ``JobOverview.driver_since``. None: not known."""

    uid: str
    vertex: str
    bounded: bool
    is_finished: bool = False
    unit: Unit | None = None
    """The unit of ``done``, ``total``, ``left`` and ``behind``; None if unknown."""
    done: int | None = None
    """Number of files or splits of a bounded source that were read since the job began."""
    total: int | None = None
    left: int | None = None
    """Number of files, splits or records of a bounded source that are not read."""
    rows: int | None = None
    rows_per_second: float | None = None
    """Rows per second, averaged over the last ``RATE_WINDOW`` seconds."""
    seconds_left: float | None = None
    """Estimated seconds to the end of a bounded source."""
    behind: int | None = None
    """Number of records in a live source that its query has not read."""
    newest: int | None = None
    """Newest event time that the query has seen, in epoch milliseconds; None if the query has no watermark."""
    last_row_at: float | None = None
    """Time of the last micro-batch with a row of the source, in epoch seconds, if the query has a watermark."""
    malformed_rows: int = 0
    """Number of rows since the job began that do not fit the schema."""


@dataclass(frozen=True)
class SubtaskOverview:
    subtask: SubtaskId
    status: str
    """"created", "running", "finished" …, or "unknown" for an unfinished subtask if no driver runs."""
    attempt: str | None = None
    restarts: int = 0
    """Number of times that the current driver has restarted the subtask."""


@dataclass(frozen=True)
class VertexOverview:
    """One Spark query, or a source with splits."""

    uid: str
    operators: tuple[str, ...]
    sinks: tuple[str, ...]
    inputs: tuple[str, ...]
    """Vertices whose result partitions this vertex reads."""
    subtasks: tuple[SubtaskOverview, ...]
    batch: int | None = None
    """Spark's id of the last measured micro-batch."""
    batch_seconds: float | None = None
    """Seconds that micro-batch ``batch`` took."""
    rows: int | None = None
    """Number of rows that the query has read since ``JobOverview.driver_since``."""
    rows_per_second: float | None = None
    unread_batches: int | None = None
    """Number of batches that the input vertices have published and this vertex has not read."""
    state_rows: int | None = None
    state_bytes: int | None = None
    watermark: int | None = None
    """Watermark at the last completed checkpoint, in epoch milliseconds; None if the query has no watermark."""
    late_rows: int = 0
    """Number of rows that the query dropped as late since the job began."""
    waits: str | None = None
    """The reason why the query's windows wait for rows of a source, as a sentence; None if they do not."""


@dataclass(frozen=True)
class SinkOverview:
    uid: str
    vertex: str
    kind: str
    """Kind of the sink's target, such as ``file`` or ``postgres``."""
    released: int = 0
    """Number of the last checkpoint that the sink has released; 0 if it has released none."""
    released_at: float | None = None
    """Time of the last release with output, in epoch seconds; None if the journal's state has no such release."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Name of a count, such as ``rows`` or ``files`` -> its sum over all releases since the job began."""
    last_counts: Mapping[str, int] = field(default_factory=dict)
    """Name of a count -> its value in the release at ``released_at``."""
    waiting: int = 0
    """Number of completed checkpoints that the sink has not released."""
    held_by: str | None = None
    """Uid of the sink whose gate postpones the release: this sink, or another sink of its transaction.

    None if no gate does.
    """
    failing_since: float | None = None
    """Time of the first failed release since the sink last released, in epoch seconds; None without a failure."""
    failure: str | None = None
    """Message of the last failed release, while releases fail."""


@dataclass(frozen=True)
class CheckpointOverview:
    """One checkpoint. Times are epoch seconds."""

    checkpoint: int
    kind: CheckpointKind
    status: CheckpointStatus
    triggered_at: float | None = None
    completed_at: float | None = None
    released_at: float | None = None
    reason: str | None = None
    """Reason for the abort; None if the checkpoint is not aborted."""
    rows: int | None = None
    """Sum of the rows that the release of this checkpoint made visible in all sinks.

    None if it is not released, was released with a later checkpoint, or if no sink counts rows.
    """


@dataclass(frozen=True)
class EventOverview:
    """One event of the job as a sentence."""

    at: float
    kind: str
    """The kind of the event's status line, a :class:`~.status_line.LineKind`."""
    message: str


@dataclass(frozen=True)
class Problem:
    """A problem that a user should know. ``advice`` is the next step; empty if nothing needs to be done."""

    severity: Severity
    subject: str
    message: str
    advice: str = ""


@dataclass(frozen=True)
class JobOverview:
    """The overview of one job at one moment. Times are epoch seconds of the driver's clock. None: not known."""

    job_id: str
    at: float
    """Time at which the overview was made from the journal's state."""
    status: str | None
    epoch: int
    mode: str | None = None
    attempt: str | None = None
    cause: str | None = None
    created_at: float | None = None
    driver_since: float | None = None
    """Time at which the last driver began; None if it has written no overview."""
    interval: float = 0.0
    """Minimum seconds between two overviews of the last driver; 0 if it has written none."""
    measured_at: float | None = None
    """Time of the measurements of the last driver (rows, rates, lag, state); None if there are none."""
    host: str | None = None
    pid: int | None = None
    application_id: str | None = None
    draining: bool = False
    stopping: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the run that differ from their defaults, without secrets."""
    settings: Mapping[str, VertexSettings] = field(default_factory=dict)
    """Vertex → settings that were changed while the job ran."""
    sources: tuple[SourceOverview, ...] = ()
    vertices: tuple[VertexOverview, ...] = ()
    """The queries, in topological order."""
    sinks: tuple[SinkOverview, ...] = ()
    last_completed: int = 0
    last_released: int = 0
    completed_count: int = 0
    aborted_count: int = 0
    next_checkpoint_at: float | None = None
    checkpoints: tuple[CheckpointOverview, ...] = ()
    """Newest first, at most :data:`CHECKPOINTS`."""
    events: tuple[EventOverview, ...] = field(default=(), metadata=OMIT_EMPTY)
    """Oldest first, at most :data:`EVENTS`, of the current driver."""
    problems: tuple[Problem, ...] = ()

    def with_measurements_of(self, earlier: JobOverview) -> JobOverview:
        """Return the overview with the measurements of ``earlier``, which a driver of the same epoch wrote."""
        return replace(
            self,
            driver_since=earlier.driver_since,
            interval=earlier.interval,
            measured_at=earlier.measured_at,
            options=earlier.options,
            events=earlier.events,
            sources=_filled(self.sources, earlier.sources, ("rows", "done", "left", "behind")),
            vertices=_filled(
                self.vertices, earlier.vertices, ("batch", "batch_seconds", "rows", "state_rows", "state_bytes")
            ),
        )

    def differs_from(self, earlier: JobOverview) -> bool:
        """Return True if the two overviews differ in more than their times."""
        return self != replace(earlier, at=self.at, measured_at=self.measured_at)

    def redacted(self, redact: Callable[[str], str]) -> JobOverview:
        """Return the overview with ``redact`` applied to the texts of errors. Names and counts are no secrets."""

        def each(values: Iterable[T], *names: str) -> tuple[T, ...]:
            return tuple(replace(value, **_texts(value, names, redact)) for value in values)  # type: ignore[type-var]

        return replace(
            self,
            cause=redact(self.cause) if self.cause else None,
            options={name: redact(value) for name, value in self.options.items()},
            sinks=each(self.sinks, "failure"),
            checkpoints=each(self.checkpoints, "reason"),
            events=each(self.events, "message"),
            problems=each(self.problems, "message", "advice"),
        )

    @property
    def valid_until(self) -> float:
        """The time, in epoch seconds, at which a driver that still runs has replaced this overview."""
        return self.at + self.interval + UNCHANGED + LATE

    def to_json(self) -> dict[str, Any]:
        return {"format": f"airflow-provider-ckpt/{KIND}", "version": VERSION, **fields_to_json(self)}

    def encode(self) -> bytes:
        return encode_document(KIND, VERSION, **fields_to_json(self))

    @classmethod
    def decode(cls, data: bytes, uri: str) -> JobOverview:
        """Read an overview. Keys of a later release with the same version are ignored.

        Raises MalformedDocumentError, NewerFormatError.
        """
        body = decode_document(data, KIND, VERSION, uri=uri, most_bytes=MOST_BYTES)
        try:
            return from_json(cls, {name: value for name, value in body.items() if name in cls.__dataclass_fields__})
        except UnknownFormError as error:
            raise MalformedDocumentError(uri=uri, what=KIND, reason=str(error)) from None


def _filled(values: Iterable[T], earlier: Iterable[T], names: Iterable[str]) -> tuple[T, ...]:
    """Return ``values``. A field in ``names`` that is None gets the value of the ``earlier`` entry with that uid."""
    by_uid = {value.uid: value for value in earlier}  # type: ignore[attr-defined]
    return tuple(
        replace(value, **_missing(value, by_uid[value.uid], names)) if value.uid in by_uid else value  # type: ignore[attr-defined,type-var]
        for value in values
    )


def _missing(value: Any, earlier: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(earlier, name) for name in names if getattr(value, name) is None}


def _texts(value: Any, names: Iterable[str], redact: Callable[[str], str]) -> dict[str, str]:
    return {name: redact(text) for name in names if (text := getattr(value, name))}


def write_overview(storage: Storage, overview: JobOverview) -> None:
    """Replace the job's overview. Raises the errors of the storage."""
    storage.replace(overview_path(overview.job_id), overview.encode())


def read_overview(storage: Storage, job_id: str) -> JobOverview | None:
    """Return the overview that the job's last driver wrote; None if there is none.

    Raises MalformedDocumentError, NewerFormatError, and the errors of the storage.
    """
    path = overview_path(job_id)
    try:
        data = storage.read(path)
    except ObjectNotFoundError:
        return None
    return JobOverview.decode(data, storage.full_uri(path))
