"""What a job was when it began: the part of its definition that its output, its state and its files depend on.

Recorded in the journal (``PlanRecorded.definition``) and compared by :mod:`.changes` at every later start. Code is not
in it: a function may be corrected between two runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.options import RuntimeMode

Json = Mapping[str, Any]

SELECTING = frozenset({"pathglobfilter", "recursivefilelookup", "basepath"})
"""Options of a file reader that decide which files it reads, in lower case. The others decide how a file is parsed,
or may hold secrets: they are not recorded."""


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
    unions: tuple[UnionDefinition, ...] = ()
    event_time: bool = field(default=False, compare=False)
    """Whether the query has a watermark at all. Not recorded."""
    shuffle_partitions: int | None = None
    """Into how many parts the state of the query is cut; None if it keeps none, or of a journal that does not say."""


@dataclass(frozen=True)
class SinkDefinition:
    """``target``: what ``Sink.definition`` gives."""

    release: str
    target: Json


@dataclass(frozen=True)
class JobDefinition:
    mode: RuntimeMode
    sources: Mapping[str, SourceDefinition]
    vertices: Mapping[str, VertexDefinition]
    sinks: Mapping[str, SinkDefinition]
    params: Mapping[str, str] = field(default_factory=dict)
    """Of the last run (``job.params``); no secrets."""
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Operator -> the operators whose rows it is given, in order. Empty in a journal that does not say."""

    def keeping(self, before: JobDefinition) -> JobDefinition:
        """With what ``before`` knows of sources and vertices that are over: their functions were not called."""
        sources = {
            uid: replace(source, format=old.format, paths=old.paths, selects=old.selects)
            if source.format is None and (old := before.sources.get(uid)) is not None
            else source
            for uid, source in self.sources.items()
        }
        vertices = {**{uid: v for uid, v in before.vertices.items() if uid not in self.vertices}, **self.vertices}
        return replace(self, sources=sources, vertices=vertices)

    def to_json(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "sources": {
                uid: {
                    "bounded": one.bounded,
                    "watermark": None if one.watermark is None else list(one.watermark),
                    "format": one.format,
                    "paths": list(one.paths),
                    "selects": dict(one.selects),
                }
                for uid, one in self.sources.items()
            },
            "vertices": {
                uid: {
                    "output_mode": one.output_mode,
                    "stateful": one.stateful,
                    "watermark": None
                    if one.watermark is None
                    else {"column": one.watermark.column, "delay_ms": one.watermark.delay_ms},
                    **({"shuffle_partitions": one.shuffle_partitions} if one.shuffle_partitions is not None else {}),
                    **({"unions": [_union_json(union) for union in one.unions]} if one.unions else {}),
                }
                for uid, one in self.vertices.items()
            },
            "sinks": {uid: {"release": one.release, "target": dict(one.target)} for uid, one in self.sinks.items()},
            **({"params": dict(self.params)} if self.params else {}),
            **({"inputs": {uid: list(uids) for uid, uids in self.inputs.items()}} if self.inputs else {}),
        }

    @classmethod
    def from_json(cls, data: Json) -> JobDefinition | None:
        """What :meth:`to_json` wrote; None for a journal of release 0.1, which has none."""
        if not data:
            return None
        return cls(
            mode=data["mode"],
            sources={uid: _source(one) for uid, one in data["sources"].items()},
            vertices={uid: _vertex(one) for uid, one in data["vertices"].items()},
            sinks={uid: SinkDefinition(one["release"], one["target"]) for uid, one in data["sinks"].items()},
            params=data.get("params", {}),
            inputs={uid: tuple(uids) for uid, uids in data.get("inputs", {}).items()},
        )


def _source(data: Json) -> SourceDefinition:
    mark = data["watermark"]
    return SourceDefinition(
        bounded=data["bounded"],
        watermark=None if mark is None else (mark[0], mark[1]),
        format=data["format"],
        paths=tuple(data["paths"]),
        selects=data["selects"],
    )


def _vertex(data: Json) -> VertexDefinition:
    mark = data["watermark"]
    event_time = None if mark is None else EventTime(mark["column"], mark["delay_ms"])
    parts = data.get("shuffle_partitions")
    unions = tuple(
        UnionDefinition(one["operator"], one["parameter"], one["schema"], one["inputs"])
        for one in data.get("unions", ())
    )
    return VertexDefinition(data["output_mode"], data["stateful"], event_time, unions, shuffle_partitions=parts)


def _union_json(union: UnionDefinition) -> dict[str, Any]:
    return {
        "operator": union.operator,
        "parameter": union.parameter,
        "schema": dict(union.schema),
        "inputs": {uid: dict(schema) for uid, schema in union.inputs.items()},
    }


def sink_definitions(sinks: tuple[Operator, ...]) -> dict[str, SinkDefinition]:
    return {one.uid: SinkDefinition(one.release, dict(one.sink.definition())) for one in sinks}


def source_definition(operator: Operator) -> SourceDefinition:
    """Without what its function reads."""
    mark = operator.watermark
    return SourceDefinition(operator.bounded, None if mark is None else (mark.column, mark.delay))


def selecting(options: Mapping[str, str]) -> dict[str, str]:
    """The options that decide which files are read, by lower-case name."""
    return {key.lower(): value for key, value in sorted(options.items()) if key.lower() in SELECTING}


def plain_path(path: str) -> str:
    """One spelling for a folder: without ``file://`` and slashes at the end."""
    for prefix in ("file://", "file:"):
        if path.startswith(prefix):
            path = path[len(prefix) :]
            break
    return path.rstrip("/") or "/"
