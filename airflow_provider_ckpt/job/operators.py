"""An operator of a job: a decorated function (source, transform) or a sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from airflow_provider_ckpt.job.errors import InvalidJobError
from airflow_provider_ckpt.job.sink_operator import Gate
from airflow_provider_ckpt.job.split_source import SplitSource

Kind = Literal["source", "transform", "sink"]
OutputMode = Literal["append", "update", "complete"]
ReleasePolicy = Literal["every_checkpoint", "final"]
Ends = Literal["available_now"]
LateRows = Literal["warn", "fail"]
TemporaryFiles = Literal["skip", "read"]
UnfinishedFiles = Literal["warn", "fail", "wait"]
MAX_AHEAD = 86_400.0
"""Default of ``max_ahead``, in seconds."""
OnMalformed = Literal["fail", "count", "quarantine"]

UID = re.compile(r"[A-Za-z0-9_]{1,100}")
LONGEST_UID = 100


@dataclass(frozen=True)
class Watermark:
    """Event-time column of a source. Rows later than ``delay`` (a Spark interval, "1 hour") may be dropped."""

    column: str
    delay: str


@dataclass(frozen=True)
class SourceOptions:
    """Limit of bytes or of files for one micro-batch of a file source. A source has at most one of the two."""

    max_bytes_per_trigger: int | None = None
    """Bytes as an integer, because Spark's file source does not understand "64m"."""
    max_files_per_trigger: int | None = None
    is_override: bool = False
    """True if a user has set the limit while the job ran. It overrides the limit of the source's function (R21)."""

    @property
    def given(self) -> dict[str, int | None]:
        """Option of ``@job.source`` -> its value; None for a limit that is not set."""
        return {
            "max_bytes_per_trigger": self.max_bytes_per_trigger,
            "max_files_per_trigger": self.max_files_per_trigger,
        }

    def to_spark(self) -> dict[str, str]:
        """Return the limit as an argument of ``DataStreamReader.options``; empty without a limit."""
        named = {
            "maxBytesPerTrigger": self.max_bytes_per_trigger,
            "maxFilesPerTrigger": self.max_files_per_trigger,
        }
        return {name: str(value) for name, value in named.items() if value is not None}


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator of a job: the result of ``@job.source``, ``@job.transform`` and ``job.sink``, for use as an input.

    A call of the operator calls the user's function, so that the function can be tested without a job. An operator
    equals only itself, because it belongs to its job.
    """

    uid: str
    """Permanent identity of the operator in the journal, in paths, and as the name of the Spark source."""
    kind: Kind
    location: str
    """"file:line" of the definition, for messages."""
    function: Callable[..., Any] | None = field(default=None, repr=False)
    """The user's function, None for a sink.

    A source's function gets a reader, and with splits also one split or a list of splits. A transform's function gets
    ``**{parameter: frame}``.
    """
    sink: Any = field(default=None, repr=False)
    """The sink object of a sink. Not in ``repr``, because it may contain a password."""
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Parameter of the function -> uids of inputs, which are united by column name. A sink's parameter is "frame"."""
    bounded: bool = False
    """True if a source ends. For other operators see ``boundedness`` in :mod:`.topology`."""
    chain: bool = True
    output_mode: OutputMode = "append"
    options: SourceOptions = SourceOptions()
    watermark: Watermark | None = None
    in_order: bool = False
    """True if a bounded source reads its files in the order of event time, within the watermark's delay."""
    late_rows: LateRows = "warn"
    """Reaction to rows of a source that its query drops as late, or that have an unfit event time."""
    max_ahead: float | None = MAX_AHEAD
    """Seconds that a source's event time may be ahead of the clock and still move the watermark. None: no limit."""
    idle_timeout: float | None = None
    """Seconds without a row after which a live source no longer holds back the watermark. None: it always does."""
    temporary_files: TemporaryFiles = "skip"
    """"read" if a source also reads files with the name of a temporary file, such as ``x.tmp``."""
    unfinished_files: UnfinishedFiles | None = None
    """Reaction to a source's file that changes after it was read. None: see :attr:`on_unfinished`."""
    on_malformed: OnMalformed | None = None
    """Reaction to rows of CSV or JSON files that do not fit the schema. None is "fail" if bounded, else "count"."""
    quarantine: bool = False
    """True if a sink gets the malformed rows of its input, which is a source."""
    release: ReleasePolicy = "every_checkpoint"
    gate: Gate | None = field(default=None, repr=False)
    """Called before each release of the sink. Returns True to release, False to postpone. None: always release."""
    transaction: str | None = None
    """Name that the sinks of one transaction share. None: the sink is released in a transaction of its own."""
    ends: Ends | None = None
    """How a bounded source ends if its end cannot be frozen. None: the end is frozen, or the source is refused."""
    allow_empty: bool = False
    """True if a bounded source may have nothing to read when the job first starts."""
    after: str | None = None
    """Uid of the bounded source whose files this live source skips. None: it skips no files."""
    reads_again: bool = False
    """True if this live source may read files that a bounded source also reads."""
    splits: SplitSource | None = field(default=None, repr=False)
    """Splits of a source that is read split by split. None for any other operator."""
    persist: bool = False
    """True if the operator's result partition outlives the job."""

    @property
    def on_unfinished(self) -> UnfinishedFiles:
        """Reaction to a file that changes after it was read. By default a bounded source fails and a live one warns."""
        return self.unfinished_files or ("fail" if self.bounded else "warn")

    @property
    def input_uids(self) -> tuple[str, ...]:
        """Uids of all inputs, in order of definition."""
        return tuple(uid for uids in self.inputs.values() for uid in uids)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.function is None:
            raise TypeError(f"{self.uid!r} ({self.location}) is a sink and cannot be called")
        return self.function(*args, **kwargs)


class OperatorRegistry:
    """Operators of a job by uid. Uids must differ in more than case, because they become names of folders."""

    def __init__(self) -> None:
        self._operators: dict[str, Operator] = {}
        self._uids: dict[str, str] = {}
        self.view: Mapping[str, Operator] = MappingProxyType(self._operators)
        """Uid -> operator. A read-only view that grows with the job."""

    def check_uid(self, uid: str, location: str) -> None:
        """Refuse a uid that cannot name an operator, or that another operator has. Raises InvalidJobError."""
        if not isinstance(uid, str) or UID.fullmatch(uid) is None:
            raise InvalidJobError(
                "operator uid {uid!r} ({location}) is not usable: it must be 1 to {longest} letters (A-Z, a-z), "
                "digits or underscores, because it names a Spark source and a folder. Give the operator one with "
                'uid="...".',
                uid=uid,
                location=location,
                longest=LONGEST_UID,
            )
        other = self._operators.get(self._uids.get(uid.casefold(), ""))
        if other is not None:
            raise InvalidJobError(
                "uid {uid!r} ({location}) is taken by the {other_kind} {other!r} ({other_location}). Uids of "
                "sources, transforms and sinks of a job must differ in more than case: give one of the two another "
                "uid.",
                uid=uid,
                location=location,
                other=other.uid,
                other_kind=other.kind,
                other_location=other.location,
            )

    def add(self, operator: Operator) -> Operator:
        self._uids[operator.uid.casefold()] = operator.uid
        self._operators[operator.uid] = operator
        return operator

    def of_kind(self, kind: Kind) -> tuple[Operator, ...]:
        return tuple(operator for operator in self._operators.values() if operator.kind == kind)
