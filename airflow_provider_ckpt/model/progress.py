"""Progress of a subtask: measurements of a micro-batch, event times of an input, and the state at a barrier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Count, Instant


@dataclass(frozen=True)
class BatchProgress:
    """Measurements of one micro-batch, with which controllers decide whether the query is fast enough.

    Args:
        duration: Seconds from the trigger of the batch to Spark's commit.
        interval: Seconds between two triggers of the query; 0 without an interval.
        rows: Spark's ``numInputRows``, which counts a row twice if it is read for two outputs.
        files: Number of files in the batch from the input with the most files; 0 without file inputs.
        size: Bytes in the batch from the input with the most bytes; 0 without file inputs.
        behind: Number of entries in the logs of the query's producers that the query has not read.
        state_rows: Number of rows in the query's state. All ``state_`` values are None for a query without state.
    """

    batch_id: int
    duration: float
    interval: float
    rows: int
    files: int = 0
    size: int = 0
    behind: int = 0
    state_rows: int | None = None
    state_bytes: int | None = None
    state_partitions: int | None = None

    @property
    def is_late(self) -> bool:
        """True if the batch took longer than ``interval``. Always False without an interval."""
        return 0 < self.interval < self.duration


@dataclass(frozen=True)
class InputProgress:
    """Progress of one attempt of a query in one of the query's inputs."""

    rows: Count = 0
    """Number of rows that the attempt has read, as Spark counts them (``numInputRows``)."""
    left: Count | None = None
    """Number of unread files (bounded file source) or records (bounded Kafka source); None for any other input."""
    behind: Count | None = None
    """Number of a live source's records that the query has not read; None if the source does not report it."""


@dataclass(frozen=True)
class SourceTimes:
    """Event times in the rows of one input, in epoch milliseconds, since the query's first micro-batch."""

    newest: int | None = None
    """The newest event time of the rows that are not counted in ``ahead``; None if none has an event time."""
    delay: int = field(default=0, metadata=OMIT_EMPTY)
    """Delay of the watermark in milliseconds."""
    last_row_at: Instant | None = None
    """Time of the last micro-batch with a row of the input, in epoch seconds; None if there was none."""
    ahead: Count = field(default=0, metadata=OMIT_EMPTY)
    """Number of rows whose event time is further ahead of the clock than the source's ``max_ahead``."""
    without: Count = field(default=0, metadata=OMIT_EMPTY)
    """Number of rows without an event time."""
    before_1970: Count = field(default=0, metadata=OMIT_EMPTY)
    """Number of rows with event times before 1970, which Spark considers late from the beginning."""

    @property
    def watermark(self) -> int | None:
        """Event time in epoch milliseconds up to which the input lets its query advance; None if ``newest`` is None."""
        return None if self.newest is None else self.newest - self.delay

    @property
    def unfit(self) -> int:
        """Number of rows whose event time is missing, or cannot be used by their query."""
        return self.ahead + self.without + self.before_1970

    def plus(self, later: SourceTimes) -> SourceTimes:
        """Return the event times of all rows, where ``later`` has the event times of the later rows."""
        newest = [time for time in (self.newest, later.newest) if time is not None]
        return SourceTimes(
            newest=max(newest, default=None),
            delay=later.delay,
            last_row_at=self.last_row_at if later.last_row_at is None else later.last_row_at,
            ahead=self.ahead + later.ahead,
            without=self.without + later.without,
            before_1970=self.before_1970 + later.before_1970,
        )


TimesByInput = Mapping[str, SourceTimes]
"""Uid of a source or edge → event times in the rows of this input."""


def combined(before: TimesByInput, later: TimesByInput) -> dict[str, SourceTimes]:
    """Return input → event times of all its rows, where ``later`` has those of the last micro-batch."""
    return {**before, **{uid: before.get(uid, SourceTimes()).plus(times) for uid, times in later.items()}}


@dataclass(frozen=True)
class Snapshot:
    """State of a subtask after all log entries before a barrier. The barrier and its acknowledgement contain it."""

    position: Count
    """Position of the log entry that contains the barrier."""
    batch_id: Count | None
    offsets: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)
    watermark: int | None = None
    """Watermark of the last batch: event time in epoch milliseconds up to which the published output is complete."""
    ended: tuple[str, ...] = ()
    finished: bool = False
    """True if the subtask is at its end of data, so that only barriers follow in its log."""
    late_rows: Count = field(default=0, metadata=OMIT_EMPTY)
    """Number of rows that the query has dropped as late since its first micro-batch."""
    times: Mapping[str, SourceTimes] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Input of a query with state → event times in its rows since its first micro-batch."""
    malformed: Mapping[str, Count] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Source uid → number of the source's rows since the first micro-batch that do not fit its schema."""
    finished_on_restore: bool = False
