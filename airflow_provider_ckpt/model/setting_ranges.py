"""Ranges of the settings of a running job: one table for clients, requests, the driver and ``--next-run``.

Values are checked early, because a change may be decided before any query starts with it. If Spark could not start a
query with the value, this run and each later run would fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from airflow_provider_ckpt.model.vertex_settings import VertexSettings

LONGEST = 36_525 * 86_400.0
"""Maximum of a time in seconds: a hundred years. Python's waits and Spark's milliseconds do not allow much more."""
LARGEST_SIZE = 2**63 - 1
"""The largest size in bytes. Spark counts bytes as a Java long."""
LARGEST_NUMBER = 2**31 - 1
"""The largest number of files or partitions, and the largest weight. Spark reads these as a Java int."""


@dataclass(frozen=True)
class WholeNumbers:
    """Whole numbers from 1 to ``most``."""

    most: int = LARGEST_NUMBER

    def problem(self, value: object) -> str | None:
        if type(value) is not int or value < 1:
            return f"is a whole number above 0, not {value!r}"
        return f"is {self.most} at the most" if value > self.most else None


@dataclass(frozen=True)
class Seconds:
    """Numbers of seconds from 0 to ``most``."""

    most: float = LONGEST

    def problem(self, value: object) -> str | None:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= self.most:
            return None
        return f"is a number of seconds from 0 to {self.most:.0f}, not {value!r}"


RANGES: Mapping[str, WholeNumbers | Seconds] = MappingProxyType(
    {
        "max_bytes_per_batch": WholeNumbers(LARGEST_SIZE),
        "max_files_per_batch": WholeNumbers(),
        "trigger_interval": Seconds(),
        "state_partitions": WholeNumbers(),
        "pool_weight": WholeNumbers(),
        "parallelism": WholeNumbers(),
        "executors": WholeNumbers(),
    }
)
"""Setting → range of the values that it may have."""


def problem_of(name: str, value: object) -> str | None:
    """Return why the setting cannot have the value; None if it can."""
    problem = RANGES[name].problem(value)
    return None if problem is None else f"{name} {problem}"


def problem_of_settings(settings: VertexSettings) -> str | None:
    """Return why the first setting out of its range cannot have its value; None if all values are in range."""
    values = ((name, getattr(settings, name)) for name in RANGES)
    return next((problem for name, value in values if value is not None and (problem := problem_of(name, value))), None)
