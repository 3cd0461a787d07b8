"""Helpers of the tests of all database sinks: staging without Spark, and connections that die."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow

from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, StageRequest
from airflow_provider_ckpt.spark.task.outputs import counted
from airflow_provider_ckpt.testing.crash import SimulatedCrash, When

COLUMNS = (("id", "integer"), ("city", "string"))
_NONCES, _PARTS = itertools.count(1), itertools.count(100)
Row = tuple[Any, ...]


class Frame(Protocol):
    """Frame in this process. ``partitions``: its rows; ``batches``: the rows of a partition in Arrow's form."""

    partitions: Sequence[Sequence[Row]]

    def batches(self, rows: Sequence[Row]) -> Iterator[pyarrow.RecordBatch]: ...


class Steps:
    """Connections that die before or after change number ``at``, counted over all of them.

    A change is a commit, or a statement that does not begin with one of ``READS``. ``done``: the changes made so far.
    """

    READS: tuple[str, ...] = ("SELECT",)

    def __init__(self, at: int | None = None, when: When = "before") -> None:
        self.at, self.when = at, when
        self.done: list[str] = []

    def step(self, name: str, act: Callable[[], Any]) -> Any:
        if name.lstrip().startswith(self.READS):
            return act()
        number = len(self.done) + 1
        if self.at is not None and (number > self.at or (number == self.at and self.when == "before")):
            raise SimulatedCrash(f"before change {number}: {name}")
        self.done.append(name)
        value = act()
        if number == self.at:
            raise SimulatedCrash(f"after change {number}: {name}")
        return value


def died(act: Callable[[], Any]) -> bool:
    """Return True if ``act`` ended with a simulated crash."""
    try:
        act()
    except SimulatedCrash:
        return True
    return False


def rows_of(*numbers: int) -> list[Row]:
    """Return the rows of these batches. Batch n has the rows 10 n and 10 n + 1."""
    return [(row, f"city {row}") for number in numbers for row in (10 * number, 10 * number + 1)]


def in_this_process(frame: Frame, function: Any) -> list[Any]:
    """Run ``function`` here instead of on executors. Each partition is a task attempt."""
    return [json.loads(json.dumps(function(next(_PARTS), frame.batches(rows)))) for rows in frame.partitions]


def stage_request(batch: int, attempt: str = "a1", run: Any = in_this_process) -> StageRequest:
    return StageRequest(attempt, batch, f"n{next(_NONCES)}", counted, run)


def stage(sink: BoundSink, frame: Frame, number: int, attempt: str = "a1") -> Handle:
    """Stage the frame as batch ``number``. Return the handle as the subtask's log returns it."""
    handle = sink.stage(frame, stage_request(number, attempt))  # type: ignore[arg-type]
    read_back: Handle = json.loads(json.dumps(handle))
    return read_back
