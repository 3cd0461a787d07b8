"""Draws of random jobs, counted for the summary of a test run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.random_jobs.definition import Definition

PROPERTY = "drawn"
RecordProperty = Callable[[str, object], None]


def record(record_property: RecordProperty, *names: str) -> None:
    """Note draws of this test. The reports of tests carry them from workers of xdist to the summary."""
    for name in names:
        record_property(PROPERTY, name)


def draws_of(definition: Definition) -> list[str]:
    """Return the special inputs of a job, and the kinds of its transforms."""
    draws = [transform.kind for transform in definition.transforms]
    for source in definition.sources:
        draws += ["folders of zones"] if source.zoned else []
        draws += ["empty for good"] if source.allow_empty else []
        draws += ["late rows"] if source.late else []
        draws += [f"{source.at_first} folder at first"] if source.at_first != "full" else []
        draws += ["history in any order"] if source.bounded and source.files > 1 else []
    return draws


def summary(reports: Iterable[Any]) -> list[str]:
    """Return one line a suite, with the number of each draw."""
    counts: dict[str, Counter[str]] = {}
    for report in reports:
        suite = report.nodeid.partition("::")[0].rpartition("test_random_")[2].removesuffix(".py")
        for name, value in report.user_properties:
            if name == PROPERTY:
                counts.setdefault(suite, Counter())[str(value)] += 1
    return [
        f"{suite}: {', '.join(f'{name} {number}' for name, number in sorted(drawn.items()))}"
        for suite, drawn in sorted(counts.items())
    ]
