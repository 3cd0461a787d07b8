"""What a subtask runs of its vertex."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VertexPlan:
    """What a subtask runs: the graph's vertex without ``dropped``, all that is left out and not just what is new.
    ``number``: 0 as first deployed in an epoch; one more at each resume."""

    number: int
    dropped: tuple[str, ...]
