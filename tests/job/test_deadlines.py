"""Deadlines that have passed: refused at a job's first run, and a warning at a later one."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.job.options.deadlines import check_deadlines, due, passed
from airflow_provider_ckpt.job.options.run_options import RunOptions

NOON = 1_772_280_000.0  # 2026-02-28T12:00Z


def options(**given: Any) -> RunOptions:
    return RunOptions.from_json({"job": "m:job", "root": "/r", "job_id": "orders", **given})


def test_a_first_run_with_a_past_stop_time_is_refused() -> None:
    late = options(stop_at="2026-02-28T11:59:00+00:00")
    with pytest.raises(BadOptionError, match=r"stop_at=2026-02-28T11:59:00.*'orders'") as raised:
        check_deadlines(late, [], is_new=True, now=NOON)
    assert isinstance(raised.value, InvalidInputError)
    assert "2026-02-28T12:00:00+00:00" in str(raised.value)


def test_a_first_run_with_a_past_drain_time_and_live_sources_is_refused() -> None:
    late = options(drain_at="2026-02-28T11:59:00+00:00")
    with pytest.raises(BadOptionError, match=r"drain_at=.*its live sources \(clicks, views\) would read nothing"):
        check_deadlines(late, ["views", "clicks"], is_new=True, now=NOON)
    check_deadlines(late, [], is_new=True, now=NOON)  # all of its sources end, and are read to their ends
    assert passed(late, NOON) is not None


@pytest.mark.parametrize("option", ["stop_at", "drain_at"])
def test_a_past_time_at_a_later_run_and_a_future_time_are_accepted(option: str) -> None:
    check_deadlines(options(**{option: "2026-02-28T11:59:00+00:00"}), ["live"], is_new=False, now=NOON)
    check_deadlines(options(**{option: "2026-02-28T12:01:00+00:00"}), ["live"], is_new=True, now=NOON)


def test_a_duration_from_the_start_is_never_past() -> None:
    for given in ({"stop_after": "1s"}, {"drain_after": "1s"}, {}):
        check_deadlines(options(**given), ["live"], is_new=True, now=NOON)
        assert passed(options(**given), NOON) is None


@pytest.mark.parametrize(
    ("given", "ran", "expected"),
    [
        ({"stop_at": "2026-02-28T13:00:00+01:00"}, 0.0, "stop"),
        ({"drain_at": "2026-02-28T12:00:00+00:00"}, 0.0, "drain"),
        ({"stop_at": "2026-02-28T12:00:01+00:00"}, 1e6, None),
        ({"stop_after": "5s"}, 4.9, None),
        ({"stop_after": "5s"}, 5.0, "stop"),
        ({"drain_after": "5s"}, 5.0, "drain"),
        ({}, 1e6, None),
    ],
)
def test_a_run_stops_or_drains_when_its_deadline_is_due(
    given: dict[str, str], ran: float, expected: str | None
) -> None:
    assert due(options(**given), elapsed=ran, now=NOON) == expected
