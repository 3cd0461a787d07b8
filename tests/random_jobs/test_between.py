"""The comparison of jobs with late rows: output it must accept, and output it must reject."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.random_jobs.between import Between, Values
from tests.random_jobs.definition import SinkDef

ROWS = SinkDef("out", "t", "rows")
LAST = SinkDef("out", "t", "last")
SURE, LATE, LATE_TOO = (10_000_001, 1, 5, 0), (10_000_002, 1, 7, 0), (10_000_003, 1, 8, 0)
SOME_LATE = Between([SURE], [SURE, LATE, LATE_TOO], {}, {})


def window(values: list[int], number: int = 20_001) -> Values:
    return (number, 1, sum(values) * 1000 + len(values), 29_999)


COUNTED = Between(
    [window([5, 6])],
    [window([5, 6, 7, 9]), window([3], 30_001)],
    {20_001: Counter([5, 6])},
    {20_001: Counter([5, 6, 7, 9]), 30_001: Counter([3])},
)


@pytest.mark.parametrize("released", [[SURE], [SURE, LATE_TOO], [SURE, LATE, LATE_TOO]])
def test_late_rows_are_counted_or_not(released: list[Values]) -> None:
    SOME_LATE.check(ROWS, released)


@pytest.mark.parametrize(
    ("released", "expected"),
    [
        ([LATE], "lost that are in time"),
        ([], "lost that are in time"),
        ([SURE, SURE], "too many"),
        ([SURE, LATE, LATE], "too many"),
        ([SURE, (10_000_004, 1, 5, 0)], "too many"),
        ([(10_000_001, 1, 6, 0)], "too many"),
    ],
)
def test_lost_repeated_and_invented_rows_are_found(released: list[Values], expected: str) -> None:
    with pytest.raises(AssertionError, match=expected):
        SOME_LATE.check(ROWS, released)


@pytest.mark.parametrize("values", [[5, 6], [5, 6, 7], [5, 6, 9], [5, 6, 7, 9]])
def test_a_window_counts_all_rows_in_time_and_some_late_ones(values: list[int]) -> None:
    COUNTED.check(ROWS, [window(values)])
    COUNTED.check(ROWS, [window(values), window([3], 30_001)])


@pytest.mark.parametrize(
    "released",
    [
        [],
        [window([5])],
        [window([5, 7])],  # a row in time is missing, and a late one is counted instead
        [window([5, 6, 6])],
        [window([5, 6, 7, 7, 9])],
        [window([5, 6]), window([5, 6])],
        [window([5, 6]), window([7])],  # the window is repeated for a late row
        [window([5, 6]), window([3, 3], 30_001)],
        [window([5, 6]), window([1], 40_001)],
    ],
)
def test_a_window_with_a_wrong_count_is_found(released: list[Values]) -> None:
    with pytest.raises(AssertionError):
        COUNTED.check(ROWS, released)


def test_the_last_row_of_an_updated_window_counts() -> None:
    COUNTED.check(LAST, [window([5]), window([5, 6, 9])])
    with pytest.raises(AssertionError):
        COUNTED.check(LAST, [window([5, 6, 9]), window([5])])
