"""Rows that one attempt of a query has read from each input, for the job's overview."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from airflow_provider_ckpt.model.progress import InputProgress
from airflow_provider_ckpt.spark.task.context import RunContext


class Bounded(Protocol):
    """A bounded input with a frozen end."""

    @property
    def left(self) -> int | None: ...


class InputRows:
    """The rows that one attempt has read from each input, and the time of its next report.

    With controllers every micro-batch is reported. Otherwise a report is due after ``overview_interval`` seconds,
    because a worker pays a write for each report.
    """

    def __init__(self, context: RunContext) -> None:
        self._interval = 0.0 if context.measures else context.options.overview_interval
        self._lock = threading.Lock()
        self._names: tuple[str, ...] = ()
        self._rows: dict[str, int] = {}
        self._behind: dict[str, int | None] = {}
        self._next_report = 0.0
        self._was_idle = False

    @property
    def is_wanted(self) -> bool:
        """True if rows are reported at an interval and a query has run. The end of data then needs a last report."""
        return self._interval > 0 and bool(self._names)

    def begin(self, names: Sequence[str]) -> None:
        """Note that a query starts. ``names``: the query's sources, in the order of Spark's progress events."""
        with self._lock:
            self._names = tuple(names)

    def add(self, sources: Sequence[tuple[int, int | None]]) -> None:
        """Add (rows, unread records) of each source in one micro-batch."""
        with self._lock:
            if len(sources) != len(self._names):  # the event of a query that has ended
                return
            for name, (rows, behind) in zip(self._names, sources, strict=True):
                self._rows[name] = self._rows.get(name, 0) + rows
                self._behind[name] = behind

    def is_due(self, now: float, *, is_idle: bool) -> bool:
        """Return True if a report is due, and schedule the next report.

        At the first idle event after a micro-batch, a report is always due.
        """
        with self._lock:
            is_due = now >= self._next_report or (is_idle and not self._was_idle)
            self._was_idle = is_idle
            if is_due:
                self._next_report = now + self._interval
            return is_due

    def progress(self, bounded: Mapping[str, Bounded]) -> dict[str, InputProgress]:
        """Return the progress of each input. ``bounded``: the inputs of the query that have a frozen end."""
        with self._lock:
            return {
                name: InputProgress(
                    self._rows.get(name, 0),
                    bounded[name].left if name in bounded else None,
                    None if name in bounded else self._behind.get(name),
                )
                for name in sorted({*self._names, *self._rows, *bounded})
            }
