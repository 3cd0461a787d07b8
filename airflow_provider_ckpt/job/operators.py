"""An operator of a job: one decorated function (source, transform) or one sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from airflow_provider_ckpt.job.gate import Gate
from airflow_provider_ckpt.job.splits import SplitSource

Kind = Literal["source", "transform", "sink"]
OutputMode = Literal["append", "update", "complete"]
ReleasePolicy = Literal["every_checkpoint", "final"]
Ends = Literal["available_now"]
LateRows = Literal["warn", "fail"]
TemporaryFiles = Literal["skip", "read"]
UnfinishedFiles = Literal["warn", "fail", "wait"]
MAX_AHEAD = 86_400.0
"""Seconds."""
OnMalformed = Literal["fail", "count", "quarantine"]

UID = re.compile(r"[A-Za-z0-9_]{1,100}")
LONGEST_UID = 100


@dataclass(frozen=True)
class Watermark:
    """Event time of a source: rows later than ``delay`` (a Spark interval, "1 hour") may be dropped."""

    column: str
    delay: str


@dataclass(frozen=True)
class SourceOptions:
    """How much one micro-batch reads from a file source. Spark takes one of the two, not both."""

    max_bytes_per_trigger: int | None = None
    """Bytes, an integer: Spark's file source does not understand "64m"."""
    max_files_per_trigger: int | None = None
    decided: bool = False
    """Somebody has given it while the job ran: it holds whatever the source's function says (R21)."""

    @property
    def given(self) -> dict[str, int | None]:
        """By the names of ``@job.source``."""
        return {
            "max_bytes_per_trigger": self.max_bytes_per_trigger,
            "max_files_per_trigger": self.max_files_per_trigger,
        }

    def to_spark(self) -> dict[str, str]:
        """The options as ``DataStreamReader.options`` takes them."""
        named = {
            "maxBytesPerTrigger": self.max_bytes_per_trigger,
            "maxFilesPerTrigger": self.max_files_per_trigger,
        }
        return {name: str(value) for name, value in named.items() if value is not None}


@dataclass(frozen=True, eq=False)
class Operator:
    """What ``@job.source``, ``@job.transform`` and ``job.sink`` return: a handle to use as an input.

    Calling it calls the user's function, so that it can be tested without a job. Two handles are equal
    only if they are the same object: a handle belongs to the job that made it.
    """

    uid: str
    """The operator's identity for ever: in the journal, in paths, as the name of the Spark source."""
    kind: Kind
    location: str
    """"file:line" of the definition, for messages."""
    function: Callable[..., Any] | None = field(default=None, repr=False)
    """None for a sink. A source's is called with a reader, and a split if it has some, a transform's with
    ``**{parameter: frame}``."""
    sink: Any = field(default=None, repr=False)
    """The sink object of a sink. Not in ``repr``: it may hold a password."""
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Parameter -> uids of the operators whose rows are united, by column name, into that parameter.
    A sink has the one parameter "frame"; a source none."""
    bounded: bool = False
    """Sources only: whether it ends. For other operators see ``boundedness`` in :mod:`.topology`."""
    chain: bool = True
    output_mode: OutputMode = "append"
    options: SourceOptions = SourceOptions()
    watermark: Watermark | None = None
    in_order: bool = False
    """Of a bounded source: its files are read in the order of their event times, within the watermark's delay."""
    late_rows: LateRows = "warn"
    """Of a source: what happens when its query drops rows as late, or gets rows with an unfit event time."""
    max_ahead: float | None = MAX_AHEAD
    """Of a source: seconds that an event time may be ahead of the clock and move the watermark. None: any."""
    idle_timeout: float | None = None
    """Of a live source: seconds without a row after which it does not hold the watermark. None: it always does."""
    temporary_files: TemporaryFiles = "skip"
    """Of a source: what happens to files with the name of a temporary file, such as ``x.tmp``."""
    unfinished_files: UnfinishedFiles | None = None
    """Of a source: what happens when a file changes after it was read. None: see :attr:`on_unfinished`."""
    on_malformed: OnMalformed | None = None
    """Of a source of CSV or JSON files: what happens at rows that do not fit the schema. None: a bounded source fails,
    a live one counts them."""
    quarantine: bool = False
    """Of a sink: it is given the malformed rows of its input, which is a source."""
    release: ReleasePolicy = "every_checkpoint"
    gate: Gate | None = field(default=None, repr=False)
    """Of a sink: what is asked before a release."""
    transaction: str | None = None
    """Of a sink: the name that sinks which are released together share."""
    ends: Ends | None = None
    """How a bounded source ends whose end cannot be frozen; None: it can, or it is refused in streaming mode."""
    allow_empty: bool = False
    """Bounded sources only: whether the source may have nothing to read when the job first starts."""
    after: str | None = None
    """Of a live source: the bounded source whose files it leaves out."""
    reads_again: bool = False
    """Of a live source: whether it may read files that a bounded source reads, too."""
    splits: SplitSource | None = field(default=None, repr=False)
    """Of a source that is read split by split."""
    persist: bool = False
    """Whether its result partition outlives the job."""

    @property
    def on_unfinished(self) -> UnfinishedFiles:
        """Rows of history would be missing for good, so that fails. A live source goes on."""
        return self.unfinished_files or ("fail" if self.bounded else "warn")

    @property
    def input_uids(self) -> tuple[str, ...]:
        """The uids of all inputs, in order of definition; each is there once."""
        return tuple(uid for uids in self.inputs.values() for uid in uids)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.function is None:
            raise TypeError(f"{self.uid!r} ({self.location}) is a sink and cannot be called")
        return self.function(*args, **kwargs)
