"""Whether the end of a query, or of a batch of it, is our doing: also when we look at it in the same moment."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.spark.task.running_query import RunningQuery


class Query:
    """Spark's query; somebody else acts in the moment in which it is looked at."""

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
    """A publisher whose stage is interrupted, with a message as long as those of Spark's JVM."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def check_fenced(self) -> None: ...

    def publish_committed(self) -> bool:
        return False

    def stage(self, frame: object, batch_id: int) -> None:
        raise ValueError("org.apache.spark.SparkException: Job aborted " + "at somewhere " * 5000)


def query_of(publisher: Any) -> RunningQuery:
    nothing: Any = None
    return RunningQuery(nothing, publisher, lambda: None)


def running(expected: bool, successor: Any = None) -> RunningQuery:
    one = query_of(SimpleNamespace(lock=threading.RLock()))
    one._end.going_on()
    query: Any = Query(one, expected, successor)
    one._query = query
    return one


def test_a_query_that_is_being_stopped_by_us_did_not_fail() -> None:
    assert running(expected=True).ended() is None


def test_a_query_that_was_stopped_and_started_anew_did_not_fail() -> None:
    assert running(expected=False, successor=object()).ended() is None


def test_a_query_that_ended_by_itself_is_found() -> None:
    one = running(expected=False)
    assert one.ended() is one._query


def test_a_batch_that_our_own_stop_interrupts_says_so_in_few_words() -> None:
    """Spark searches the message for an interruption with a pattern that overflows the stack on long ones."""
    query = query_of(Interrupted())
    query._end.interrupt()
    with pytest.raises(RuntimeError, match=r"^java\.lang\.InterruptedException: .{1,60}$"):
        query.foreach_batch(None, 1)  # type: ignore[arg-type]


def test_any_other_failure_is_passed_on_as_it_is() -> None:
    with pytest.raises(ValueError, match="Job aborted"):
        query_of(Interrupted()).foreach_batch(None, 1)  # type: ignore[arg-type]
