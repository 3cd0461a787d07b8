"""Whether a query that ended was stopped by us, though we look at it in the same moment."""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.spark.task.running_query import RunningQuery


class Query:
    """Spark's query; somebody else acts in the moment in which it is looked at."""

    def __init__(self, running: RunningQuery, expected: bool, successor: Any = None) -> None:
        self.running, self.expected, self.successor = running, expected, successor

    @property
    def isActive(self) -> bool:
        self.running._expected_stop = self.expected
        if self.successor is not None:
            self.running._query = self.successor
        return False


def running(expected: bool, successor: Any = None) -> RunningQuery:
    nothing: Any = None
    one = RunningQuery(nothing, nothing)
    one._expected_stop = False
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
