"""Facts about a running job that its journal lacks: rows that queries read, their rates, and failing releases.

The JobMaster collects the facts for the job's overview, from the start of its process.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from airflow_provider_ckpt.coordinator.protocol.reports import QueryMeasured
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.progress import BatchProgress

RATE_WINDOW = 30.0
"""Seconds over which a rate is averaged."""


@dataclass
class Counter:
    """A count that only rises, with its rate over the last ``RATE_WINDOW`` seconds."""

    total: int = 0
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def rise_to(self, total: int, now: float) -> None:
        self.total = max(self.total, total)
        self._samples.append((now, self.total))
        while len(self._samples) > 2 and self._samples[1][0] <= now - RATE_WINDOW:
            self._samples.popleft()

    def per_second(self, now: float) -> float | None:
        """Return the rate per second. None before the second sample, 0 if the last sample is older than RATE_WINDOW.

        The rate includes the whole time between the last two samples, so that all of a long micro-batch counts.
        """
        if len(self._samples) < 2:
            return None
        (began, first), (latest, _) = self._samples[0], self._samples[-1]
        if now - latest > RATE_WINDOW:
            return 0.0
        return (self.total - first) / max(now - began, 1e-3)


@dataclass
class InputFacts:
    """The progress of one input of one query. See :class:`InputProgress` for ``left`` and ``behind``."""

    rows: Counter = field(default_factory=Counter)
    done: Counter = field(default_factory=Counter)
    """Number of files, splits or records that were read since the first report."""
    left: int | None = None
    behind: int | None = None
    _base: int = 0
    _attempt: AttemptId | None = None
    _most_left: int = 0

    def note(self, attempt: AttemptId, rows: int, left: int | None, behind: int | None, now: float) -> None:
        if attempt != self._attempt:  # the next attempt counts from zero
            self._attempt, self._base = attempt, self.rows.total
        self.rows.rise_to(self._base + rows, now)
        self.left, self.behind = left, behind
        if left is not None:
            self._most_left = max(self._most_left, left)
            self.done.rise_to(self._most_left - left, now)


@dataclass
class QueryFacts:
    """Facts about the query of one subtask."""

    progress: BatchProgress | None = None
    """The last measured micro-batch."""
    is_idle: bool = False
    inputs: dict[str, InputFacts] = field(default_factory=dict)
    """Source or edge uid → its facts."""

    def rows(self) -> int:
        return sum(facts.rows.total for facts in self.inputs.values())


@dataclass
class SinkFacts:
    """The failing or postponed release of one sink. Without such a release all fields are None."""

    failing_since: float | None = None
    failure: str | None = None
    held_by: str | None = None


class LiveFacts:
    """The facts that one JobMaster has collected.

    The times of measurements are seconds of a monotonic clock, because rates are computed from them. All other times
    are epoch seconds.
    """

    def __init__(self, since: float) -> None:
        self.since = since
        self.queries: dict[SubtaskId, QueryFacts] = {}
        self.sinks: dict[str, SinkFacts] = {}

    def measured(self, report: QueryMeasured, now: float) -> None:
        facts = self.queries.setdefault(report.subtask, QueryFacts())
        facts.is_idle = report.progress is None
        facts.progress = report.progress or facts.progress
        for uid, progress in report.inputs.items():
            of_input = facts.inputs.setdefault(uid, InputFacts())
            of_input.note(report.attempt, progress.rows, progress.left, progress.behind, now)

    def release_failed(self, sink: str, cause: str, at: float) -> None:
        facts = self.sinks.setdefault(sink, SinkFacts())
        facts.failing_since = at if facts.failing_since is None else facts.failing_since
        facts.failure, facts.held_by = cause, None

    def release_held(self, sink: str, gate_of: str) -> None:
        self.sinks[sink] = SinkFacts(held_by=gate_of)

    def released(self, sink: str) -> None:
        self.sinks.pop(sink, None)
