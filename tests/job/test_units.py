from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pendulum
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.job.options.units import parse_bytes, parse_duration


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0),
        (30, 30),
        (0.25, 0.25),
        ("30", 30),
        ("0.5", 0.5),
        ("500ms", 0.5),
        ("5s", 5),
        (" 1m30s ", 90),
        ("1 hour 30 minutes", 5400),
        ("2H", 7200),
        ("1 day", 86400),
        ("1.5 h", 5400),
        (timedelta(minutes=2), 120),
        (pendulum.duration(seconds=45), 45),
    ],
)
def test_a_duration_is_seconds(value: Any, seconds: float) -> None:
    assert parse_duration(value) == pytest.approx(seconds)


NO_DURATIONS = [
    *(
        "",
        " ",
        "s",
        "5x",
        "-1",
        "1m-30s",
        "5 s,",
        "1,5s",
        "PT5S",
        "1e3",
        "nan",
        "inf",
        "0x10",
        "٣s",
        "9" * 400,
        "36526d",
    ),
    *(-1, -0.1, float("nan"), float("inf"), 10**400, True, None, [5], timedelta(seconds=-1), b"5s"),
]


@pytest.mark.parametrize("value", NO_DURATIONS, ids=lambda value: repr(value)[:12])
def test_an_invalid_duration_is_refused_with_examples(value: Any) -> None:
    with pytest.raises(BadOptionError, match="or a timedelta; not negative, and a") as caught:
        parse_duration(value, "min_pause")
    assert str(caught.value).startswith(f"min_pause: {value!r} is no duration")
    assert '"1m30s"' in str(caught.value)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (0, 0),
        (10**12, 10**12),
        ("1024", 1024),
        ("512b", 512),
        ("64m", 64 << 20),
        ("64 MB", 64 << 20),
        ("64MiB", 64 << 20),
        ("1.5g", 3 << 29),
        ("512K", 512 << 10),
        ("2t", 2 << 40),
        ("1p", 1 << 50),
    ],
)
def test_a_size_is_a_whole_number_of_bytes(value: Any, size: int) -> None:
    assert parse_bytes(value) == size


NO_SIZES = [
    "",
    "m",
    "-1",
    "1.5",
    "0.3k",
    "64q",
    "64 m m",
    "1e6",
    "٣m",
    "9" * 5000,
    -1,
    1.5,
    True,
    None,
    b"1m",
    2**63,
    "8192p",
]


@pytest.mark.parametrize("value", NO_SIZES, ids=lambda value: repr(value)[:12])
def test_an_invalid_size_is_refused_with_examples(value: Any) -> None:
    with pytest.raises(BadOptionError, match="not negative, and less than 8192p") as caught:
        parse_bytes(value, "journal_buffer_bytes")
    assert str(caught.value).startswith(f"journal_buffer_bytes: {value!r} is no size")
    assert '"64m"' in str(caught.value)


@given(st.integers(0, 800_000), st.integers(0, 59), st.integers(0, 59))
def test_parts_of_a_duration_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


@given(st.text(max_size=12))
@example("0\x1f")
def test_any_text_is_a_value_or_raises_an_error_of_the_package(text: str) -> None:
    for parse in (parse_duration, parse_bytes):
        with contextlib.suppress(BadOptionError):
            assert parse(text) >= 0
