"""Reports about the end of a query, and their consequences."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.spark.task.streaming.running_query import QueryEnd


@pytest.fixture
def end() -> QueryEnd:
    """Return the end of a running query."""
    end = QueryEnd()
    end.begin()
    end.must_run()
    return end


def flags(end: QueryEnd) -> dict[str, object]:
    asked = {"expected": end.is_expected, "interrupted": end.is_interrupted, "for good": end.is_run_over}
    return {"failure": end.failure, **asked}


NOTHING = {"failure": None, "expected": False, "interrupted": False, "for good": False}


def test_an_unexpected_end_of_a_query_is_a_failure(end: QueryEnd) -> None:
    assert flags(end) == NOTHING


def test_an_end_is_expected_until_the_query_must_run() -> None:
    assert QueryEnd().is_expected


def test_an_expected_end_is_no_interruption_before_the_stop(end: QueryEnd) -> None:
    end.expect()
    assert flags(end) == {**NOTHING, "expected": True}
    end.interrupt()
    assert flags(end) == {**NOTHING, "expected": True, "interrupted": True}


def test_the_next_query_begins_without_the_reports_of_the_previous_one(end: QueryEnd) -> None:
    error = ValueError()
    end.batch_failed(error)
    end.expect()
    end.interrupt()
    assert flags(end) == {"failure": error, "expected": True, "interrupted": True, "for good": False}
    end.begin()
    assert flags(end) == {**NOTHING, "expected": True}


def test_a_starting_query_keeps_the_end_of_the_run() -> None:
    end = QueryEnd()
    end.end_run()
    end.begin()
    end.must_run()
    assert flags(end) == {"failure": None, "expected": True, "interrupted": True, "for good": True}
