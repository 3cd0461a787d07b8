"""Ends of a query or of a batch that the driver causes itself, even during the check for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.spark.task.errors import QueryFailedError
from airflow_provider_ckpt.spark.task.streaming.running_query import RunningQuery


class Query:
    """A Spark query. Another thread acts while its state is checked."""

    def __init__(self, running: RunningQuery, expected: bool, successor: Any = None) -> None:
        self.running, self.expected, self.successor = running, expected, successor

    @property
    def isActive(self) -> bool:
        if self.expected:
            self.running._end.expect()
        if self.successor is not None:
            self.running._query = self.successor
        return False


class Interrupted:
    """Micro-batches whose stage is interrupted with a message as long as those of Spark's JVM."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def check_fenced(self) -> None: ...

    def finish_committed(self) -> None: ...

    def stage(self, frame: object, batch_id: int, is_over: Callable[[], bool], *, only_final: bool) -> None:
        raise ValueError("org.apache.spark.SparkException: Job aborted " + "at somewhere " * 5000)


def query_of(batches: Any) -> RunningQuery:
    nothing: Any = None
    return RunningQuery(nothing, batches)


def running(expected: bool, successor: Any = None) -> RunningQuery:
    running_query = query_of(SimpleNamespace(lock=threading.RLock()))
    running_query._end.must_run()
    query: Any = Query(running_query, expected, successor)
    running_query._query = query
    return running_query


def test_a_query_stopped_by_the_driver_did_not_fail() -> None:
    assert running(expected=True).ended() is None


def test_a_query_replaced_by_a_successor_did_not_fail() -> None:
    assert running(expected=False, successor=object()).ended() is None


def test_an_unexpected_end_of_a_query_is_found() -> None:
    query = running(expected=False)
    assert query.ended() is query._query


def test_a_batch_interrupted_by_a_stop_raises_a_short_message() -> None:
    """Spark searches the message for an interruption. Its pattern overflows the stack on long messages."""
    query = query_of(Interrupted())
    query._end.interrupt()
    with pytest.raises(RuntimeError, match=r"^java\.lang\.InterruptedException: .{1,60}$"):
        query.foreach_batch(None, 1)  # type: ignore[arg-type]


def test_other_failures_of_a_batch_are_passed_on_unchanged() -> None:
    with pytest.raises(ValueError, match="Job aborted"):
        query_of(Interrupted()).foreach_batch(None, 1)  # type: ignore[arg-type]


class Spark:
    """A stream writer that calls ``started`` instead of starting a query."""

    def __init__(self, started: Any) -> None:
        self.start = started

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: self


def test_the_failure_of_a_query_is_kept_while_its_planned_batch_runs() -> None:
    """The driver's loop finds the query ended.

    Before the loop asks for the reason, the runner's thread stops at a boundary. There is nothing to stop there, and it
    runs the planned batch.
    """
    for_good = CkptError(message="for good")
    failed: Any = SimpleNamespace(
        isActive=False, exception=lambda: RuntimeError("as Spark wraps it"), stop=lambda: None
    )
    batches: Any = SimpleNamespace(
        lock=threading.RLock(),
        finish_committed=lambda: None,
        log=SimpleNamespace(state=SimpleNamespace(last_batch=None)),
        folder=SimpleNamespace(location=""),
        vertex=SimpleNamespace(uid="vertex", sources=("live",)),
        publication=SimpleNamespace(plan=SimpleNamespace(settings=None, without=frozenset())),
        being_read=(),
    )
    graph = SimpleNamespace(inputs=lambda uid: ())
    context: Any = SimpleNamespace(spark=MagicMock(), job_id="job", epoch=1, executors=None, graph=graph)
    query = RunningQuery(context, batches)
    query._query = failed
    query._end.must_run()
    query._end.batch_failed(for_good)
    ended = query.ended()
    assert ended is failed
    query.stop_after_batch()

    def start() -> Any:
        assert type(query.failure(ended)) is CkptError  # while the new query starts,
        return SimpleNamespace(id=2)

    frame = SimpleNamespace(writeStream=Spark(start))
    built: Any = SimpleNamespace(frame=frame, output_mode="append", stateful=False, final=False, reads={})
    query._launch(built, {"once": True})
    assert type(query.failure(ended)) is CkptError  # and after its start
    assert type(query.cause(RuntimeError())) is QueryFailedError  # no failure of the new query is known
