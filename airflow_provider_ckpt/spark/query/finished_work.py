"""Finished sources and vertices of a job, and settings that earlier runs have fixed, as the job's journal has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import StructType

from airflow_provider_ckpt.job.options.run_options import RuntimeMode
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.vertex_settings import Settings
from airflow_provider_ckpt.spark.query.edge_schema import marked
from airflow_provider_ckpt.spark.query.stored_schemas import stored_schema
from airflow_provider_ckpt.spark.query.unions import Unions, read_unions


@dataclass(frozen=True)
class FinishedWork:
    """The finished sources and vertices of a job, and settings that earlier runs have fixed for later runs.

    Attributes:
        over: finished sources. Their functions must not be called again, because their folders may be gone.
        inline: bounded source -> True if it is read in an unbounded vertex.
        dropped: vertex -> ended sources and edges that its query leaves out.
        schemas: vertex at its end of data -> schema of its output, with Spark's event-time mark.
        mode: the runtime mode of the job's first run; None if the job has not begun.
        unions: vertex that leaves inputs out -> its unions as they were with all inputs.
        settings: vertex -> settings that requests have changed while the job ran.
        state_partitions: vertex with state -> how many partitions its state has.
    """

    over: frozenset[str] = frozenset()
    inline: Mapping[str, bool] = field(default_factory=dict)
    dropped: Mapping[str, frozenset[str]] = field(default_factory=dict)
    schemas: Mapping[str, StructType] = field(default_factory=dict)
    mode: RuntimeMode | None = None
    unions: Mapping[str, Unions] = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    state_partitions: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(state: JobState) -> FinishedWork:
        """Return the finished work of the graph in the journal. Later checks compare it with the current graph."""
        definition = state.definition
        if definition is None:
            return FinishedWork()
        vertices = state.graph().vertices
        ended = [vertex for vertex in vertices if state.end_of_data.issuperset(vertex.subtasks)]
        over = {uid for vertex in ended for uid in vertex.sources}
        over |= {uid for uids in state.dropped.values() for uid in uids}
        return FinishedWork(
            frozenset(over),
            {uid: not vertex.bounded for vertex in vertices for uid in vertex.bounded_sources},
            {vertex: frozenset(uids) for vertex, uids in state.dropped.items()},
            {vertex.uid: _schema(vertex.uid, state, definition) for vertex in ended},
            definition.mode,
            {
                vertex: read_unions(definition.vertices[vertex].unions)
                for vertex, uids in state.dropped.items()
                if uids and vertex in definition.vertices
            },
            state.settings,
            {uid: n for uid, v in definition.vertices.items() if (n := v.shuffle_partitions) is not None},
        )

    @staticmethod
    def for_restore(state: JobState) -> FinishedWork:
        """Return only the fixed settings. Finished vertices are left out, because a restore may run them again."""
        work = FinishedWork.of(state)
        return FinishedWork(
            inline=work.inline,
            mode=work.mode,
            settings=work.settings,
            state_partitions=work.state_partitions,
        )


def _schema(uid: str, state: JobState, definition: JobDefinition) -> StructType:
    assert state.plan is not None
    schema = stored_schema(state.plan.schemas[uid])
    recorded = definition.vertices.get(uid)
    return schema if recorded is None or recorded.watermark is None else marked(schema, recorded.watermark)
