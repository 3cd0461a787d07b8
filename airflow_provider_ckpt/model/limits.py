"""Numbers with limits: types of fields, checked when a value is read (:mod:`.json_form`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class Between:
    """Limits of a number, both included: metadata of an ``Annotated`` type."""

    least: float
    most: float


Count = Annotated[int, Between(0, (1 << 63) - 1)]
"""A number of rows or bytes, an offset, a position, a checkpoint or an epoch."""
Pid = Annotated[int, Between(0, (1 << 31) - 1)]
"""The id of a process."""
Parallelism = Annotated[int, Between(1, 100_000)]
"""The number of subtasks of a vertex."""
Instant = Annotated[float, Between(0, 253_402_300_799)]
"""Epoch seconds up to the end of the year 9999, because every such instant can be shown."""
