"""What a subtask runs: of its vertex, and of the graph around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.vertex_settings import VertexSettings


@dataclass(frozen=True)
class VertexPlan:
    """What a subtask runs: the graph's vertex without ``dropped``, all that is left out and not just what is new.
    ``number``: 0 as first deployed in an epoch; one more at each resume. ``parallelism``: vertex -> subtasks, of those
    that have another number of them than when the epoch began: what the subtask reads, and who reads it, follows.
    ``settings``: what somebody has changed of the vertex; None: nothing.

    What another reason to stand still changes is one more field here, with a default that changes nothing, which the
    reason's ``PlanChanges`` sets and whoever builds the query reads."""

    number: int
    dropped: tuple[str, ...]
    parallelism: Mapping[str, int] = field(default_factory=dict, hash=False, metadata=LATER)
    settings: VertexSettings | None = field(default=None, metadata=LATER)

    @property
    def without(self) -> frozenset[str]:
        """Sources, and edges, that are left out."""
        return frozenset(self.dropped)
