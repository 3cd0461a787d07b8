"""What of a job that ran before is over, and what was decided about it: nothing of it is worked out again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import StructType

from airflow_provider_ckpt.job.options import RuntimeMode
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.vertex_settings import Settings
from airflow_provider_ckpt.spark.query.edge_schema import marked
from airflow_provider_ckpt.spark.query.stored_schemas import stored_schema
from airflow_provider_ckpt.spark.query.unions import Unions, read_unions


@dataclass(frozen=True)
class Done:
    """``over``: uids of sources that are finished; their functions are not called again, their folders may be gone.
    ``inline``: bounded source -> whether it was made part of an unbounded vertex, of every source that the job had.
    ``dropped``: vertex -> sources and edges left out. ``schemas``: vertex at its end of data -> its output, with its
    event time. ``mode``: the runtime mode it began in, None if it has not begun. ``unions``: vertex with sources or
    edges left out -> what it unites, as it was with them."""

    over: frozenset[str] = frozenset()
    inline: Mapping[str, bool] = field(default_factory=dict)
    dropped: Mapping[str, frozenset[str]] = field(default_factory=dict)
    schemas: Mapping[str, StructType] = field(default_factory=dict)
    mode: RuntimeMode | None = None
    unions: Mapping[str, Unions] = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    """What somebody has changed while the job ran."""
    state_partitions: Mapping[str, int] = field(default_factory=dict)
    """Vertex that keeps state -> the number of partitions of its state."""

    @staticmethod
    def of(state: JobState) -> Done:
        """Of the graph as it ran; whether the job may still be run with another one is checked later."""
        definition = state.definition
        if definition is None:
            return Done()
        vertices = state.graph().vertices
        ended = [vertex for vertex in vertices if state.end_of_data.issuperset(vertex.subtasks)]
        over = {uid for vertex in ended for uid in vertex.sources}
        over |= {uid for uids in state.dropped.values() for uid in uids}
        return Done(
            frozenset(over),
            {uid: not vertex.bounded for vertex in vertices for uid in vertex.bounded_sources},
            {vertex: frozenset(uids) for vertex, uids in state.dropped.items()},
            {one.uid: _schema(one.uid, state, definition) for one in ended},
            definition.mode,
            {
                vertex: read_unions(definition.vertices[vertex].unions)
                for vertex, uids in state.dropped.items()
                if uids and vertex in definition.vertices
            },
            state.settings,
            {uid: n for uid, one in definition.vertices.items() if (n := one.shuffle_partitions) is not None},
        )

    @staticmethod
    def again(state: JobState) -> Done:
        """For a job that goes back to a checkpoint: what is over may be running again, how it runs stays."""
        known = Done.of(state)
        return Done(
            inline=known.inline,
            mode=known.mode,
            settings=known.settings,
            state_partitions=known.state_partitions,
        )


def _schema(uid: str, state: JobState, definition: JobDefinition) -> StructType:
    assert state.plan is not None
    schema = stored_schema(state.plan.schemas[uid])
    known = definition.vertices.get(uid)
    return schema if known is None or known.watermark is None else marked(schema, known.watermark)
