"""The job graph: vertices (chains of operators, one Spark query each) and their edges, as Flink's JobGraph.

``job.chaining`` makes the graph of a job. The coordinator and the runtime read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Count, Parallelism

Exchange = Literal["pointwise", "all_to_all"]
_LAYOUT = "layout-"
"""Prefix of layout folders. No edge has such a name, because each edge's name has two underscores."""


@dataclass(frozen=True)
class JobEdge:
    """A result partition between two vertices: *producer* publishes it and *consumer* reads it.

    ``uid`` is also the name of the streaming source that reads the partition in the consumer's query. ``operator`` is
    the uid of the operator in the consumer that has the producer as an input.
    """

    uid: str
    producer: str
    consumer: str
    operator: str
    exchange: Exchange = "all_to_all"
    folder: str = field(default="", metadata=OMIT_EMPTY)
    """Result of :meth:`JobGraph.edge_folder` after a change of the producer's set of consumers; empty before."""


@dataclass(frozen=True)
class JobVertex:
    """Operators chained into one Spark query.

    ``uid`` is the uid of its output operator, the last operator that is not a sink. The uid therefore stays the same
    when sources are added before that operator or sinks after it.
    """

    uid: str
    operators: tuple[str, ...]
    """Sources and transforms in topological order. The output operator is the last."""
    sources: tuple[str, ...]
    """All sources among ``operators``."""
    bounded_sources: tuple[str, ...]
    sinks: tuple[str, ...]
    bounded: bool
    """True if every source and every upstream vertex is bounded."""
    parallelism: Parallelism = 1
    splits: bool = field(default=False, metadata=OMIT_EMPTY)
    """True if the vertex is a source with splits. Its subtasks get splits assigned, and run no streaming query."""
    persist: bool = field(default=False, metadata=OMIT_EMPTY)
    """True if the vertex's result partition outlives the job."""
    layout: Count = field(default=0, metadata=OMIT_EMPTY)
    """How often the vertex's set of consumers has changed since its first run."""

    @property
    def subtasks(self) -> tuple[SubtaskId, ...]:
        """The parallel instances of the vertex."""
        return tuple(SubtaskId.of(self.uid, index) for index in range(self.parallelism))


@dataclass(frozen=True)
class JobGraph:
    """Vertices in topological order and their edges. The journal records the graph for later runs."""

    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]

    @property
    def subtasks(self) -> tuple[SubtaskId, ...]:
        """The subtasks of all vertices, in topological order."""
        return tuple(name for vertex in self.vertices for name in vertex.subtasks)

    def subtasks_named(self, name: str) -> tuple[SubtaskId, ...]:
        """Return the subtask named ``name``, or all subtasks of the vertex ``name``. Empty if there is no such name."""
        return tuple(subtask for subtask in self.subtasks if name in (subtask, subtask.vertex))

    @property
    def operators(self) -> tuple[str, ...]:
        """The uids of all operators, including sinks."""
        return tuple(uid for vertex in self.vertices for uid in (*vertex.operators, *vertex.sinks))

    def publishes(self, vertex: str) -> bool:
        """Return True if the vertex has result partitions: another vertex reads them, or they outlive the job."""
        return bool(self.outputs(vertex)) or self.vertex(vertex).persist

    def data_folder(self, vertex: str) -> str:
        """Return the folder of the data files, relative to a result partition of the vertex.

        The path is ``<edge uid>/…/data`` with all consumers' edges, or ``layout-<n>/data`` after a change of consumers.
        """
        layout = self.vertex(vertex).layout
        folders = [_layout_folder(layout)] if layout else self._edge_uids(vertex)
        return "/".join([*folders, "data"])

    def edge_folder(self, edge: JobEdge) -> str:
        """Return the folder of the logs by which the consumer reads ``edge``, relative to the producer's partition."""
        uids = self._edge_uids(edge.producer)
        return edge.folder or "/".join(uids[: uids.index(edge.uid) + 1])

    def _edge_uids(self, vertex: str) -> list[str]:
        return sorted(edge.uid for edge in self.outputs(vertex))

    def with_layouts_after(self, before: JobGraph) -> JobGraph:
        """Return the graph with the layouts of the last run (``before``), plus 1 where the consumers changed (R7)."""
        uids = {vertex.uid for vertex in before.vertices}
        layouts = {vertex.uid: self._layout_after(before, vertex.uid) for vertex in self.vertices if vertex.uid in uids}
        vertices = tuple(replace(vertex, layout=layouts.get(vertex.uid, 0)) for vertex in self.vertices)
        edges = tuple(replace(edge, folder=self._folder_after(before, edge, layouts)) for edge in self.edges)
        return JobGraph(vertices, edges)

    def _layout_after(self, before: JobGraph, vertex: str) -> int:
        layout, edges_before = before.vertex(vertex).layout, before._edge_uids(vertex)
        is_first = not layout and not before.publishes(vertex)
        return layout if is_first or edges_before == self._edge_uids(vertex) else layout + 1

    @staticmethod
    def _folder_after(before: JobGraph, edge: JobEdge, layouts: Mapping[str, int]) -> str:
        if not layouts.get(edge.producer):
            return ""
        stays = [output for output in before.outputs(edge.producer) if output.uid == edge.uid]
        return before.edge_folder(stays[0]) if stays else f"{_layout_folder(layouts[edge.producer])}/{edge.uid}"

    def vertex(self, uid: str) -> JobVertex:
        for vertex in self.vertices:
            if vertex.uid == uid:
                return vertex
        raise KeyError(uid)

    def rescaled(self, parallelism: Mapping[str, int]) -> JobGraph:
        """Return the graph with ``parallelism`` (vertex → new number of subtasks). Other vertices are unchanged."""
        if not parallelism:
            return self
        vertices = [
            replace(vertex, parallelism=parallelism.get(vertex.uid, vertex.parallelism)) for vertex in self.vertices
        ]
        return JobGraph(tuple(vertices), self.edges)

    def inputs(self, vertex: str) -> tuple[JobEdge, ...]:
        return tuple(edge for edge in self.edges if edge.consumer == vertex)

    def upstream_sources(self, vertex: str) -> frozenset[str]:
        """Return the uids of the sources whose rows reach a vertex, also through other vertices."""
        reached, sources = {vertex}, set[str]()
        for candidate in reversed(self.vertices):
            if candidate.uid in reached:
                sources.update(candidate.sources)
                reached.update(edge.producer for edge in self.inputs(candidate.uid))
        return frozenset(sources)

    def outputs(self, vertex: str) -> tuple[JobEdge, ...]:
        return tuple(edge for edge in self.edges if edge.producer == vertex)

    def sink_depths(self) -> dict[str, int]:
        """Return sink uid → largest number of edges between a source and the sink.

        Sinks of the same depth, or of the same vertex, show one consistent cut. With unaligned barriers, sinks of
        different depths may show different prefixes of the sources (R24).
        """
        depths = dict.fromkeys((vertex.uid for vertex in self.vertices), 0)
        edges: dict[str, list[JobEdge]] = {vertex.uid: [] for vertex in self.vertices}
        for edge in self.edges:
            edges[edge.consumer].append(edge)
        for vertex in self.vertices:
            depths[vertex.uid] = max((depths[edge.producer] + 1 for edge in edges[vertex.uid]), default=0)
        return {sink: depths[vertex.uid] for vertex in self.vertices for sink in vertex.sinks}


def layout_of(path: str) -> int:
    """Return n for a path ``layout-<n>/…`` below a result partition. Return 0 for any other path."""
    folder = path.partition("/")[0]
    number = folder.removeprefix(_LAYOUT)
    return int(number) if number != folder and number.isdecimal() else 0


def _layout_folder(layout: int) -> str:
    return f"{_LAYOUT}{layout}"


def split_widths(graph: JobGraph) -> dict[str, int]:
    """Return source with splits → number of its subtasks."""
    return {vertex.uid: vertex.parallelism for vertex in graph.vertices if vertex.splits}
