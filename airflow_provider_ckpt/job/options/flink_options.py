"""Options of a run under Flink's keys (FLIP-383), with values in Flink's notation.

A number without a unit is milliseconds under Flink's keys, and seconds under the options' own names. The rules are
those of Flink's ``TimeUtils.parseDuration`` and ``MemorySize.parse``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.job.options import kinds
from airflow_provider_ckpt.job.options.kinds import Kind
from airflow_provider_ckpt.job.options.option import Option
from airflow_provider_ckpt.job.options.run_options import BY_NAME, OPTIONS
from airflow_provider_ckpt.job.options.suggestions import unknown_option

KEYS: Mapping[str, Option] = {key: option for option in OPTIONS for key in option.flink}

_SECONDS = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_BYTES = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
_LARGEST = (1 << 63) - 1
_AMOUNT = re.compile(r"0*([0-9]{1,19})\s*([^\W\d_]*)")


def flink_values(given: Mapping[str, Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    """Convert options under Flink's keys to fields of RunOptions. Return field -> value.

    Args:
        given: Flink's key -> value.
        typed: Field -> value, for options that the user has given under their own names.

    Raises BadOptionError if a key is unknown, if a value cannot be read, or if two names of one option have different
    values.
    """
    if not isinstance(given, Mapping):
        raise BadOptionError(option="options", value=type(given).__name__, expected="texts by Flink's keys")
    values: dict[str, Any] = {}
    key_of: dict[str, str] = {}
    for key, value in given.items():
        option = _option(key)
        kept = _read(option.kind, _text(value, key), key)
        if values.setdefault(option.name, kept) != kept:
            first_key = key_of[option.name]
            raise _given_twice(first_key, given[first_key], key, value)
        key_of[option.name] = key
    for name, key in key_of.items():
        _refuse_other(name, typed.get(name), key, given[key], values[name])
    return values


def _option(key: object) -> Option:
    if not isinstance(key, str) or key not in KEYS:
        raise unknown_option("options", key, KEYS)
    return KEYS[key]


def _text(value: object, key: str) -> str:
    """Return an option's value as text. A YAML file turns some of Flink's texts into numbers or booleans."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int):
        raise BadOptionError(option=key, value=type(value).__name__, expected="a text")
    return str(value).strip()


def _refuse_other(name: str, typed: Any, key: str, given: Any, kept: Any) -> None:
    """Refuse an option that is also given under its own name, with another value.

    The default is allowed, because an option that the user has not given has that value, too.
    """
    option = BY_NAME[name]
    if typed is not None and option.read(typed) not in (kept, option.default):
        raise _given_twice(name, typed, key, given)


def _given_twice(first: str, value: object, second: str, other: object) -> BadOptionError:
    return BadOptionError(
        "{first}={value!r} and {second}={other!r} set one option to different values. Give one of them.",
        first=first,
        value=value,
        second=second,
        other=other,
    )


def _duration(text: str, key: str) -> float:
    amount = _amount(text, _SECONDS)
    if amount is None:
        raise BadOptionError(
            "{option}: {value!r} is no duration as Flink has it. Write a whole number and a unit (ns, µs, ms, s, "
            'min, h, d), such as "30 s" or "3 min"; a number alone is milliseconds.',
            option=key,
            value=text,
        )
    return amount


def _size(text: str, key: str) -> int:
    amount = _amount(text, _BYTES)
    if amount is None or amount > _LARGEST:
        raise BadOptionError(
            "{option}: {value!r} is no size as Flink has it. Write a whole number and a unit (b, kb, mb, gb, tb: "
            'powers of 1024), such as "1 mb"; a number alone is bytes.',
            option=key,
            value=text,
        )
    return int(amount)


def _amount(text: str, units: Mapping[str, float]) -> float | None:
    match = _AMOUNT.fullmatch(text)
    if match is None or int(match[1]) > _LARGEST or match[2].lower() not in units:
        return None
    return int(match[1]) * units[match[2].lower()]


def _flag(text: str, key: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadOptionError(option=key, value=text, expected="true or false")
    return text.lower() == "true"


_READ: Mapping[str, Callable[[str, str], Any]] = {
    kinds.DURATION.allowed: _duration,
    kinds.SIZE.allowed: _size,
    kinds.FLAG.allowed: _flag,
}


def _read(kind: Kind, text: str, key: str) -> Any:
    return _READ[kind.allowed](text, key)
