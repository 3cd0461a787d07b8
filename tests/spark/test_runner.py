"""Whether a query that ended was stopped by us, though we look at it in the same moment."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.errors import QueryFailedError
from airflow_provider_ckpt.job.graph import Vertex
from airflow_provider_ckpt.spark.inputs import Inputs
from airflow_provider_ckpt.spark.runner import VertexRunner

VERTEX = Vertex("v", ("v",), ("v",), (), (), bounded=False)


class Query:
    """Spark's query; somebody else acts in the moment in which it is looked at."""

    def __init__(self, runner: VertexRunner, expected: bool, successor: Any = None) -> None:
        self.runner, self.expected, self.successor = runner, expected, successor

    @property
    def isActive(self) -> bool:
        self.runner._expected_stop = self.expected
        if self.successor is not None:
            self.runner._query = self.successor
        return False

    def exception(self) -> None:
        return None


def runner(expected: bool, successor: Any = None) -> VertexRunner:
    nothing: Any = None
    inputs = Inputs({}, {}, nothing, lambda uid: nothing)
    one = VertexRunner(
        nothing,
        VERTEX,
        "v/0",
        log=nothing,
        folder=nothing,
        builder=nothing,
        inputs=inputs,
        outputs=nothing,
        prepared=nothing,
        dropped=frozenset(),
    )
    one._expected_stop = False
    query: Any = Query(one, expected, successor)
    one._query = query
    return one


def test_a_query_that_is_being_stopped_by_us_did_not_fail() -> None:
    runner(expected=True).check()


def test_a_query_that_was_stopped_and_started_anew_did_not_fail() -> None:
    runner(expected=False, successor=object()).check()


def test_a_query_that_ended_by_itself_failed() -> None:
    with pytest.raises(QueryFailedError, match="ended without an exception"):
        runner(expected=False).check()
