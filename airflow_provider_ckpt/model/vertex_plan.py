"""What a subtask runs of its vertex."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VertexPlan:
    """What a subtask runs: the graph's vertex without ``dropped``, all that is left out and not just what is new.
    ``number``: 0 as first deployed in an epoch; one more at each resume.

    What another reason to stand still changes is one more field here, with a default that changes nothing, which the
    reason's ``PlanChanges`` sets and whoever builds the query reads."""

    number: int
    dropped: tuple[str, ...]

    @property
    def without(self) -> frozenset[str]:
        """Sources, and edges, that are left out."""
        return frozenset(self.dropped)
