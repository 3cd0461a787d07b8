"""Times that are over: refused at a job's first run, told at a later one."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.deadlines import check_deadlines, due, passed
from airflow_provider_ckpt.job.errors import DeadlinePassedError
from airflow_provider_ckpt.job.options import RunOptions

NOON = 1_772_280_000.0  # 2026-02-28T12:00Z


def options(**given: Any) -> RunOptions:
    return RunOptions.from_json({"job": "m:job", "root": "/r", "job_id": "orders", **given})


def test_a_first_run_whose_time_to_stop_is_over_is_refused_with_the_time() -> None:
    late = options(stop_at="2026-02-28T11:59:00+00:00")
    with pytest.raises(DeadlinePassedError, match=r"stop_at=2026-02-28T11:59:00.*'orders'") as raised:
        check_deadlines(late, is_new=True, now=NOON)
    assert isinstance(raised.value, InvalidInputError)
    assert "2026-02-28T12:00:00+00:00" in str(raised.value)


def test_a_first_run_whose_time_to_drain_is_over_reads_its_history() -> None:
    late = options(drain_at="2026-02-28T11:59:00+00:00")
    check_deadlines(late, is_new=True, now=NOON)
    assert passed(late, NOON) is not None


def test_a_later_run_is_not_refused_and_a_time_to_come_never_is() -> None:
    check_deadlines(options(stop_at="2026-02-28T11:59:00+00:00"), is_new=False, now=NOON)
    check_deadlines(options(stop_at="2026-02-28T12:01:00+00:00"), is_new=True, now=NOON)
    check_deadlines(options(stop_after="1s"), is_new=True, now=NOON)
    check_deadlines(options(), is_new=True, now=NOON)
    assert passed(options(), NOON) is None


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
def test_what_is_due(given: dict[str, str], ran: float, expected: str | None) -> None:
    assert due(options(**given), ran=ran, now=NOON) == expected
