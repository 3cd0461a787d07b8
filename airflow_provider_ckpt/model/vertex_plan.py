"""The plan of a subtask: the changes of its vertex, and of the graph around the vertex."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.vertex_settings import VertexSettings


@dataclass(frozen=True)
class VertexPlan:
    """The changes of a running job with which a subtask runs its vertex.

    Each reason to pause that changes the plan has a field here, with a default that changes nothing. The reason's
    ``PlanChanges`` sets the field, and the builder of the query reads it.

    Args:
        number: Number of resumes since the first deployment in the epoch.
        dropped: Uids of all sources and edges that the vertex leaves out.
        parallelism: Vertex → number of its subtasks, if this number has changed in the epoch. The producers and
            consumers of the subtask follow from it.
        settings: Changed settings of the vertex; None without changes.
    """

    number: int
    dropped: tuple[str, ...]
    parallelism: Mapping[str, int] = field(default_factory=dict, hash=False, metadata=OMIT_EMPTY)
    settings: VertexSettings | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def without(self) -> frozenset[str]:
        """Uids of the sources and edges that the vertex leaves out."""
        return frozenset(self.dropped)
