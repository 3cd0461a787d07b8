"""The parts of a job's declaration that determine its output, its state and its files.

The journal records this definition (``PlanRecorded.definition``), and ``job.changes`` compares it at every later start.
It contains no code, because a function may be corrected between two runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_ckpt.model.job_status import RuntimeMode
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY, Json
from airflow_provider_ckpt.model.kept_state import KeptState


@dataclass(frozen=True)
class SourceDefinition:
    """The definition of a source.

    ``format``, ``paths`` and ``selects`` record how the source's function calls Spark's reader. These fields are None
    or empty if the source has ended, because its function is then not called.
    """

    bounded: bool
    watermark: tuple[str, str] | None = None
    """Declared watermark as (column, delay), as in ``@job.source``; None without one."""
    format: str | None = None
    paths: tuple[str, ...] = ()
    selects: Mapping[str, str] = field(default_factory=dict)
    in_order: bool = field(default=False, metadata=OMIT_EMPTY)
    """True if a bounded source is declared to be in order, so that event time advances while it is read."""
    parallelism: int | None = field(default=None, metadata=OMIT_EMPTY)
    """Number of subtasks of a source with splits; None for any other source."""
    topics: Mapping[str, str] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Topic of a Kafka source → id from the brokers. Topics that match a live source's pattern are not recorded."""


@dataclass(frozen=True)
class EventTime:
    """The watermark of a vertex's output, which its data files do not contain. ``delay_ms`` is in milliseconds."""

    column: str
    delay_ms: int


@dataclass(frozen=True)
class UnionDefinition:
    """The union of several inputs that a function of an operator gets as its argument ``parameter``.

    ``schema`` is the schema of the union. ``inputs``: input that was read → its schema. Schemas are Spark's JSON. An
    input that has ended and was left out does not change the definition.
    """

    operator: str
    parameter: str
    schema: Json
    inputs: Mapping[str, Json]


@dataclass(frozen=True)
class VertexDefinition:
    """The definition of a vertex, which is one Spark query."""

    output_mode: str
    stateful: bool
    watermark: EventTime | None = None
    shuffle_partitions: int | None = field(default=None, metadata=OMIT_EMPTY)
    """Number of partitions of the query's state; None if the query has no state."""
    unions: tuple[UnionDefinition, ...] = field(default=(), metadata=OMIT_EMPTY)
    event_time: bool = field(default=False, compare=False, metadata=OMIT_EMPTY)
    """True if the query has a watermark, whether or not its output has one."""
    kept: tuple[KeptState, ...] = field(default=(), compare=False, metadata=OMIT_EMPTY)
    """States of the query's Spark operators, in order from the query's output to its inputs."""
    lags: bool = field(default=False, compare=False, metadata=OMIT_EMPTY)
    """True if results come later than the watermark shows, because a row of a stream join waits for its partner."""


@dataclass(frozen=True)
class SinkDefinition:
    """The definition of a sink.

    Args:
        target: The result of ``Sink.definition``.
        gated: True if the sink has a gate, which is polled before each release. Runs may differ in this.
    """

    release: str
    target: Json
    gated: bool = field(default=False, compare=False, metadata=OMIT_EMPTY)


@dataclass(frozen=True)
class JobDefinition:
    mode: RuntimeMode
    sources: Mapping[str, SourceDefinition]
    vertices: Mapping[str, VertexDefinition]
    sinks: Mapping[str, SinkDefinition]
    params: Mapping[str, str] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """The parameters of the last run (``job.params``), without secrets."""
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Operator uid → uids of the operators whose rows it reads, in order."""
    session: Mapping[str, str] = field(default_factory=dict, compare=False, metadata=OMIT_EMPTY)
    """Spark settings and time zones of the first run that affect values. Later runs use the same values."""

    def with_ended_parts_of(self, before: JobDefinition) -> JobDefinition:
        """Return a copy completed from ``before``, because functions of ended sources and vertices were not called.

        The copy has the missing vertices of ``before``, and the missing reader fields of its sources.
        """
        sources = {
            uid: replace(source, format=old.format, paths=old.paths, selects=old.selects, topics=old.topics)
            if source.format is None and (old := before.sources.get(uid)) is not None
            else source
            for uid, source in self.sources.items()
        }
        vertices = {**{uid: v for uid, v in before.vertices.items() if uid not in self.vertices}, **self.vertices}
        return replace(self, sources=sources, vertices=vertices)
