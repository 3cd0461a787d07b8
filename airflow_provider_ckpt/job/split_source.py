"""The splits of a source as a user gives them, and the check that they can be assigned, recorded and named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.errors import is_classified, kind_and_text
from airflow_provider_ckpt.job.errors import (
    BadOperatorOptionError,
    InvalidJobError,
    SplitsFailedError,
    SplitsFailedForNowError,
)
from airflow_provider_ckpt.job.user_failure import may_pass
from airflow_provider_ckpt.model.split import Split

_PLAIN = (str, int, float, bool, type(None))
_LONGEST_ID = 100
_SHOWN = 60
_DEEPEST = 100
"""Maximum depth of nested lists and dicts in a split, because a recursive function checks the split."""
_LARGEST = 10**1000
"""Whole numbers in a split must be below this, because Python refuses to read a number of some thousand digits."""
_EXPECTED = "a list of splits, or a function without arguments that returns one"
MOST_TOGETHER = 64
"""Maximum number of splits that one Spark job reads together. Spark's planning time grows with each split."""
MOST_BATCHED = 1024
"""Maximum number of splits for one call of a batched function, which returns one DataFrame for all these splits."""
SPLITS_ONLY = {
    "parallelism": "no parallelism: only a source with splits=... runs in several subtasks",
    "max_splits_per_batch": "no such number: only a source with splits=... has splits",
    "batched": "no such flag: only a source with splits=... has splits",
}
NOT_WITH_SPLITS = {
    "watermark": "no watermark with splits: they are read in no order, and rows of an early one would be late. Let the "
    "consumers group by columns, or run the job in batch mode, where results are final without one",
    "in_order": "no order with splits: several are read at once, and each is a batch without event time",
    "late_rows": "nothing with splits: a split is read as a batch, and no row of it is late",
    "temporary_files": "nothing with splits: the function of the source chooses the files that it reads",
    "unfinished_files": "nothing with splits: the function of the source chooses the files that it reads",
    "max_ahead": "nothing with splits: a split is read as a batch, and no row of it moves a watermark",
    "idle_timeout": "nothing with splits: a split is read as a batch, and no source holds a watermark",
    "ends": "no end with splits: the source ends with the last of them",
    "allow_empty": "left out: a list without splits is always refused",
    "max_bytes_per_trigger": "no limit with splits: a split is read as a whole; make smaller ones",
    "max_files_per_trigger": "no limit with splits: a split is read as a whole; make smaller ones",
}


@dataclass(frozen=True)
class SplitSource:
    """The splits of a source, and how they are read.

    Args:
        given: A list of splits, or a function without arguments that returns such a list.
        max_splits_per_batch: The user's limit. None means a default, see :attr:`most_together`.
        batched: True if one call of the source's function gets a list of splits.
    """

    given: Sequence[Any] | Callable[[], Any]
    parallelism: int = 1
    max_splits_per_batch: int | None = None
    batched: bool = False

    @property
    def most_together(self) -> int:
        """Maximum number of small splits that one Spark job reads together.

        By default a source with one subtask reads splits one by one, because its function may rely on the order of
        calls.
        """
        if self.max_splits_per_batch is not None:
            return self.max_splits_per_batch
        if self.batched:
            return MOST_BATCHED
        return MOST_TOGETHER if self.parallelism > 1 else 1


def split_source(
    uid: str,
    location: str,
    splits: object,
    parallelism: object,
    max_splits_per_batch: object,
    batched: object,
    bounded: object,
    excluded: Mapping[str, object],
) -> SplitSource | None:
    """Check the arguments of ``@job.source`` about splits, and return them; None if ``splits`` is None.

    A list of splits is checked, too. A function is called later, when the job is planned. ``excluded`` is option ->
    value, for the options that cannot be combined with splits.

    Raises BadOperatorOptionError for a bad argument, InvalidJobError for a bad list.
    """

    def refuse(option: str, value: object, expected: str) -> BadOperatorOptionError:
        return BadOperatorOptionError(operator=uid, location=location, option=option, value=value, expected=expected)

    numbers = {"parallelism": parallelism, "max_splits_per_batch": max_splits_per_batch}
    if splits is None:
        for option, value in {**numbers, "batched": batched or None}.items():
            if value is not None:
                raise refuse(option, value, SPLITS_ONLY[option])
        return None
    for option, value in numbers.items():
        if value is not None and (type(value) is not int or value < 1):
            raise refuse(option, value, "a whole number above 0")
    if not isinstance(batched, bool):
        raise refuse("batched", batched, "True or False")
    largest = MOST_BATCHED if batched else MOST_TOGETHER
    if isinstance(max_splits_per_batch, int) and max_splits_per_batch > largest:
        raise refuse("max_splits_per_batch", max_splits_per_batch, f"a whole number from 1 to {largest}")
    if bounded is not True:
        raise refuse("bounded", bounded, "True: a source with splits ends with the last of them")
    for option, value in excluded.items():
        if value is not None:
            raise refuse(option, value, NOT_WITH_SPLITS[option])
    if not isinstance(splits, list) and not callable(splits):
        raise refuse("splits", f"an object of type {type(splits).__name__}", _EXPECTED)
    if isinstance(splits, list):
        named_splits(uid, location, splits)
        splits = list(splits)
    width = parallelism if isinstance(parallelism, int) else 1
    at_most = max_splits_per_batch if isinstance(max_splits_per_batch, int) else None
    return SplitSource(splits, width, at_most, batched)


def read_splits(uid: str, location: str, source: SplitSource) -> tuple[Split, ...]:
    """Return the source's splits. If the user gave a function that returns them, call that function.

    Raises:
        InvalidJobError: the list of splits is bad, see :func:`named_splits`.
        SplitsFailedError: the function failed.
        SplitsFailedForNowError: the function failed, and the failure may be temporary.
        CkptError: the function failed with an error of this package, which is raised unchanged.
    """
    if not callable(source.given):
        return named_splits(uid, location, source.given)
    try:
        given = source.given()
    except (Exception, SystemExit) as error:  # a user's function must not end the driver
        if is_classified(error):
            raise
        kind = SplitsFailedForNowError if may_pass(error) else SplitsFailedError
        raise kind(operator=uid, location=location, cause=kind_and_text(error)) from error
    return named_splits(uid, location, given)


def named_splits(uid: str, location: str, given: object) -> tuple[Split, ...]:
    """Return the splits with their names.

    Raises InvalidJobError if ``given`` is no list or is empty. The same holds if two splits have one name, or if a
    split does not survive JSON unchanged.
    """

    def refuse(problem: str) -> InvalidJobError:
        return InvalidJobError(
            "{operator!r} ({location}): the splits {problem}.", operator=uid, location=location, problem=problem
        )

    if not isinstance(given, (list, tuple)):
        raise refuse(f"are an object of type {type(given).__name__}; expected a list")
    if not given:
        raise refuse("are none at all: a source without splits reads nothing")
    numbers: dict[str, int] = {}
    splits: list[Split] = []
    for number, value in enumerate(given):
        if (problem := _problem(value)) is not None:
            raise refuse(f"hold one that does not survive JSON, number {number}: {problem}")
        name = split_id(value)
        if not isinstance(name, str) or not name:
            raise refuse(f"hold one whose 'id' is {name!r}, number {number}: expected a text that is not empty")
        if name in numbers:
            raise refuse(
                f"hold twins: numbers {numbers[name]} and {number} are both {name!r}; two splits of one content need "
                "an 'id' each"
            )
        numbers[name] = number
        splits.append(Split(name, value))
    return tuple(splits)


def split_id(value: Any) -> Any:
    """Return the id of a split: a dict's "id", or else the value as text or JSON, shortened if it is long."""
    if isinstance(value, dict) and "id" in value:
        return value["id"]
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))
    if len(text) <= _LONGEST_ID:
        return text
    return f"{text[:_SHOWN]}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _problem(value: Any, depth: int = 0) -> str | None:
    """Return why ``value`` would not survive JSON unchanged, or cannot be passed to Spark. None if it can be used."""
    if depth > _DEEPEST:
        return f"it has more than {_DEEPEST} lists and dicts in each other"
    if type(value) in _PLAIN:
        return _problem_of_plain(value)
    if type(value) is list:
        return next((problem for item in value if (problem := _problem(item, depth + 1)) is not None), None)
    if type(value) is dict:
        key = next((name for name in value if type(name) is not str), None)
        if key is not None:
            return f"{key!r} is a key of a dict, and comes back as a text"
        parts = (*value, *value.values())
        return next((problem for part in parts if (problem := _problem(part, depth + 1)) is not None), None)
    return f"a {type(value).__name__} is no text, number, list or dict"


def _problem_of_plain(value: Any) -> str | None:
    if isinstance(value, float) and value - value != 0:
        return f"{value!r} is no number of JSON"
    if isinstance(value, int) and abs(value) >= _LARGEST:
        return "a number of more than 1000 digits"
    if isinstance(value, str) and not _is_unicode(value):
        return f"{value[:_SHOWN]!r} is no Unicode text (the name of a file that is not UTF-8?)"
    return None


def _is_unicode(text: str) -> bool:
    """Return True if a text can be encoded. Spark refuses half surrogates (undecodable bytes of a file name)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
