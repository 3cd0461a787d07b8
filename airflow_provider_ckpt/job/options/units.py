"""Durations and sizes in the user's notation."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal

from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.model.setting_ranges import LARGEST_SIZE, LONGEST

Duration = float | int | str | timedelta
Size = int | str

_SECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[0-9]+(?:\.[0-9]+)?\s*", re.ASCII)
_SIZE = re.compile(r"\s*([0-9]{1,18})(?:\.([0-9]{1,18}))?\s*([kmgtp]?)(?:i?b)?\s*", re.ASCII)
_MOST_DIGITS = 18
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse_duration(value: Duration, option: str = "duration") -> float:
    """Return the seconds of a number (of seconds), a timedelta (pendulum's too) or a text ("500ms", "1m30s").

    Raises BadOptionError if the value is no duration. The error names ``option``.
    """
    seconds = _seconds(value)
    if seconds is None or not math.isfinite(seconds) or not 0 <= seconds <= LONGEST:
        raise BadOptionError(
            '{option}: {value!r} is no duration. Write a number of seconds (30, 0.5), a text such as "500ms", '
            '"30s", "1m30s", "2h", "1 day", or a timedelta; not negative, and a hundred years at the most.',
            option=option,
            value=value,
        )
    return seconds


def _seconds(value: object) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value) if abs(value) < 1e18 else None
    return _seconds_of_text(value.lower()) if isinstance(value, str) else None


def _seconds_of_text(text: str) -> float | None:
    if _NUMBER.fullmatch(text):
        return float(text)
    total, end = 0.0, 0
    while end < len(text):
        part = _PART.match(text, end)
        if part is None or part[2] not in _SECONDS:
            return None
        total += float(part[1]) * _SECONDS[part[2]]
        end = part.end()
    return total if end else None


def whole_number(text: str) -> int | None:
    """Return the number in a text of digits. None if the text contains anything else.

    A text of more than 18 digits also gives None, because Python raises an error for some thousand digits.
    """
    digits = text.strip()
    return int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else None


def format_duration(seconds: float) -> str:
    """Return a text for :func:`parse_duration`, in the largest unit that gives a whole number. "0" has no unit."""
    if not seconds:
        return "0"
    for name, unit in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds % unit == 0:
            return f"{int(seconds) // unit}{name}"
    return f"{Decimal(repr(seconds)):f}s"


def format_bytes(size: int) -> str:
    """Return a text for :func:`parse_bytes`, in the largest unit that gives a whole number."""
    for name in ("p", "t", "g", "m", "k"):
        if size and size % 1024 ** _POWER[name] == 0:
            return f"{size // 1024 ** _POWER[name]}{name}"
    return str(size)


def parse_bytes(value: Size, option: str = "size") -> int:
    """Return the bytes of a whole number or a text: ``67108864``, ``"64m"``, ``"64 MiB"``, ``"1.5g"``.

    k, m, g, t, p are powers of 1024, as in Spark. Raises BadOptionError if the value is no size. The error names
    ``option``.
    """
    size = _bytes(value)
    if size is None or size > LARGEST_SIZE:
        raise BadOptionError(
            '{option}: {value!r} is no size. Write a whole number of bytes (67108864) or a text such as "512k", '
            '"64m", "1.5g" (powers of 1024); not negative, and less than 8192p.',
            option=option,
            value=value,
        )
    return size


def _bytes(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    match = _SIZE.fullmatch(value.lower()) if isinstance(value, str) else None
    if match is None:
        return None
    fraction = match[2] or ""
    size, rest = divmod(int(match[1] + fraction) * 1024 ** _POWER[match[3]], 10 ** len(fraction))
    return None if rest else size
