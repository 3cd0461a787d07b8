"""What a job was when it began: the part of its definition that its output, its state and its files depend on.

Recorded in the journal (``PlanRecorded.definition``) and compared by ``job.changes`` at every later start. Code is not
in it: a function may be corrected between two runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_ckpt.model.json_form import LATER, Json
from airflow_provider_ckpt.model.kept_state import KeptState
from airflow_provider_ckpt.model.mode import RuntimeMode


@dataclass(frozen=True)
class SourceDefinition:
    """``format``, ``paths`` and ``selects``: what the function did with its reader; None and empty if it was not
    called (its source is over)."""

    bounded: bool
    watermark: tuple[str, str] | None = None
    """Column and delay, as given to ``@job.source``."""
    format: str | None = None
    paths: tuple[str, ...] = ()
    selects: Mapping[str, str] = field(default_factory=dict)
    in_order: bool = field(default=False, metadata=LATER)
    """Whether a bounded source lets event time advance while it is read."""
    parallelism: int | None = field(default=None, metadata=LATER)
    """Of a source that is read split by split; None for any other."""
    topics: Mapping[str, str] = field(default_factory=dict, metadata=LATER)
    """Of a Kafka source: name -> the id that the brokers gave it. Those of a live source's pattern are not recorded."""


@dataclass(frozen=True)
class EventTime:
    """The watermark of a vertex's output: files do not carry it (``delay_ms`` in milliseconds)."""

    column: str
    delay_ms: int


@dataclass(frozen=True)
class UnionDefinition:
    """What the ``parameter`` of an operator that unites several inputs is given; an input that ended and was left out
    changes nothing of it. ``schema``: of the united frame; ``inputs``: of each input that was read, by uid. Both as
    Spark's JSON."""

    operator: str
    parameter: str
    schema: Json
    inputs: Mapping[str, Json]


@dataclass(frozen=True)
class VertexDefinition:
    """``unions``: of the vertex; empty in journals that do not tell."""

    output_mode: str
    stateful: bool
    watermark: EventTime | None = None
    shuffle_partitions: int | None = field(default=None, metadata=LATER)
    """Into how many parts the state of the query is cut; None if it keeps none, or of a journal that does not say."""
    unions: tuple[UnionDefinition, ...] = field(default=(), metadata=LATER)
    event_time: bool = field(default=False, compare=False, metadata=LATER)
    """Whether the query has a watermark at all; False in journals that do not tell."""
    kept: tuple[KeptState, ...] = field(default=(), compare=False, metadata=LATER)
    """What the query keeps, from its output downwards; empty in journals that do not tell."""
    lags: bool = field(default=False, compare=False, metadata=LATER)
    """Its results come out later than its watermark says: it joins streams, and a row waits for its partner."""


@dataclass(frozen=True)
class SinkDefinition:
    """``target``: what ``Sink.definition`` gives; ``gated``: whether its releases ask a gate first. That may change."""

    release: str
    target: Json
    gated: bool = field(default=False, compare=False, metadata=LATER)


@dataclass(frozen=True)
class JobDefinition:
    mode: RuntimeMode
    sources: Mapping[str, SourceDefinition]
    vertices: Mapping[str, VertexDefinition]
    sinks: Mapping[str, SinkDefinition]
    params: Mapping[str, str] = field(default_factory=dict, metadata=LATER)
    """Of the last run (``job.params``); no secrets."""
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict, metadata=LATER)
    """Operator -> the operators whose rows it is given, in order. Empty in a journal that does not say."""
    session: Mapping[str, str] = field(default_factory=dict, compare=False, metadata=LATER)
    """Spark's settings and time zones that change values: those of the first run. Later runs use them."""

    def keeping(self, before: JobDefinition) -> JobDefinition:
        """With what ``before`` knows of sources and vertices that are over: their functions were not called."""
        sources = {
            uid: replace(source, format=old.format, paths=old.paths, selects=old.selects, topics=old.topics)
            if source.format is None and (old := before.sources.get(uid)) is not None
            else source
            for uid, source in self.sources.items()
        }
        vertices = {**{uid: v for uid, v in before.vertices.items() if uid not in self.vertices}, **self.vertices}
        return replace(self, sources=sources, vertices=vertices)
