"""The job graph: vertices (chains of operators, one Spark query each) and the edges between them, as Flink's JobGraph.

Values only, before any parallel instance of a vertex runs. ``job.chaining`` makes a graph out of a job; the coordinator
and the runtime read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.limits import Count, Parallelism
from airflow_provider_ckpt.model.subtask_id import SubtaskId

Exchange = Literal["pointwise", "all_to_all"]
_LAYOUT = "layout-"
"""No edge is called so: there are two underscores in the name of each."""


@dataclass(frozen=True)
class JobEdge:
    """A result partition between two vertices: what *producer* publishes and *consumer* reads.

    ``uid`` is also the name of the streaming source that reads it in the consumer's query.
    ``operator`` is the uid of the operator in the consumer that has the producer as an input.
    """

    uid: str
    producer: str
    consumer: str
    operator: str
    exchange: Exchange = "all_to_all"
    folder: str = field(default="", metadata=LATER)
    """See :meth:`JobGraph.edge_folder`; "" as long as the consumers of the producer are those that it began with."""


@dataclass(frozen=True)
class JobVertex:
    """Operators chained into one Spark query. ``uid`` is the uid of its output operator, the last one
    that is no sink, so it stays the same when sources are added in front of it or sinks behind it."""

    uid: str
    operators: tuple[str, ...]
    """Sources and transforms in topological order; the last one is the output operator."""
    sources: tuple[str, ...]
    """The uids in ``operators`` that are sources (inline ones included)."""
    bounded_sources: tuple[str, ...]
    sinks: tuple[str, ...]
    bounded: bool
    """True if every source and every upstream vertex is bounded."""
    parallelism: Parallelism = 1
    splits: bool = field(default=False, metadata=LATER)
    """A source that is read split by split: its subtasks are handed them, and it is no Spark query."""
    persist: bool = field(default=False, metadata=LATER)
    """Its result partition outlives the job."""
    layout: Count = field(default=0, metadata=LATER)
    """How often its consumers have become others."""

    @property
    def subtasks(self) -> tuple[SubtaskId, ...]:
        """Its parallel instances."""
        return tuple(SubtaskId.of(self.uid, index) for index in range(self.parallelism))


@dataclass(frozen=True)
class JobGraph:
    """Vertices in topological order, and the edges between them. Kept in the journal, and compared on a retry."""

    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]

    @property
    def subtasks(self) -> tuple[SubtaskId, ...]:
        """Of all vertices, in topological order."""
        return tuple(name for vertex in self.vertices for name in vertex.subtasks)

    def named(self, name: str) -> tuple[SubtaskId, ...]:
        """The subtasks that ``name`` means: one, or a vertex with all of its subtasks."""
        return tuple(subtask for subtask in self.subtasks if name in (subtask, subtask.vertex))

    @property
    def operators(self) -> tuple[str, ...]:
        """The uids of all operators, sinks among them."""
        return tuple(uid for vertex in self.vertices for uid in (*vertex.operators, *vertex.sinks))

    def publishes(self, vertex: str) -> bool:
        """Whether its subtasks have result partitions: somebody reads them, or they are to outlive the job."""
        return bool(self.outputs(vertex)) or self.vertex(vertex).persist

    def data_folder(self, vertex: str) -> str:
        """Where the vertex puts what it publishes, below its partition: at first below one folder for each consumer, by
        uid, and when they have become others below one for these."""
        layout = self.vertex(vertex).layout
        folders = [_folder(layout)] if layout else self._edge_uids(vertex)
        return "/".join([*folders, "data"])

    def edge_folder(self, edge: JobEdge) -> str:
        """Where the consumer's feeds are, below the partition. It stays when other consumers come and go."""
        uids = self._edge_uids(edge.producer)
        return edge.folder or "/".join(uids[: uids.index(edge.uid) + 1])

    def _edge_uids(self, vertex: str) -> list[str]:
        return sorted(edge.uid for edge in self.outputs(vertex))

    def laid_out_after(self, before: JobGraph) -> JobGraph:
        """As the job that it goes on from has laid out its partitions (R7)."""
        known = {vertex.uid for vertex in before.vertices}
        layouts = {
            vertex.uid: self._layout_after(before, vertex.uid) for vertex in self.vertices if vertex.uid in known
        }
        vertices = tuple(replace(one, layout=layouts.get(one.uid, 0)) for one in self.vertices)
        edges = tuple(replace(one, folder=self._folder_after(before, one, layouts)) for one in self.edges)
        return JobGraph(vertices, edges)

    def _layout_after(self, before: JobGraph, vertex: str) -> int:
        layout, was = before.vertex(vertex).layout, before._edge_uids(vertex)
        is_first = not layout and not before.publishes(vertex)
        return layout if is_first or was == self._edge_uids(vertex) else layout + 1

    @staticmethod
    def _folder_after(before: JobGraph, edge: JobEdge, layouts: Mapping[str, int]) -> str:
        if not layouts.get(edge.producer):
            return ""
        stays = [one for one in before.outputs(edge.producer) if one.uid == edge.uid]
        return before.edge_folder(stays[0]) if stays else f"{_folder(layouts[edge.producer])}/{edge.uid}"

    def vertex(self, uid: str) -> JobVertex:
        for vertex in self.vertices:
            if vertex.uid == uid:
                return vertex
        raise KeyError(uid)

    def rescaled(self, parallelism: Mapping[str, int]) -> JobGraph:
        """With so many subtasks of the vertices named; of any other as many as it has."""
        if not parallelism:
            return self
        vertices = [replace(one, parallelism=parallelism.get(one.uid, one.parallelism)) for one in self.vertices]
        return JobGraph(tuple(vertices), self.edges)

    def inputs(self, vertex: str) -> tuple[JobEdge, ...]:
        return tuple(edge for edge in self.edges if edge.consumer == vertex)

    def upstream_sources(self, vertex: str) -> frozenset[str]:
        """Return the uids of the sources whose rows reach a vertex."""
        reached, sources = {vertex}, set[str]()
        for one in reversed(self.vertices):
            if one.uid in reached:
                sources.update(one.sources)
                reached.update(edge.producer for edge in self.inputs(one.uid))
        return frozenset(sources)

    def outputs(self, vertex: str) -> tuple[JobEdge, ...]:
        return tuple(edge for edge in self.edges if edge.producer == vertex)

    def sink_depths(self) -> dict[str, int]:
        """Sink uid -> the largest number of edges between a source and the sink.

        Sinks of one vertex always agree; sinks of different depth show one consistent cut but, if barriers
        are unaligned, not the same prefix of the sources (R24).
        """
        depths = dict.fromkeys((vertex.uid for vertex in self.vertices), 0)
        edges: dict[str, list[JobEdge]] = {vertex.uid: [] for vertex in self.vertices}
        for edge in self.edges:
            edges[edge.consumer].append(edge)
        for vertex in self.vertices:
            depths[vertex.uid] = max((depths[edge.producer] + 1 for edge in edges[vertex.uid]), default=0)
        return {sink: depths[vertex.uid] for vertex in self.vertices for sink in vertex.sinks}


def layout_of(path: str) -> int:
    """Of a file or a folder below a partition: for which consumers it is, the first ones or later ones."""
    folder = path.partition("/")[0]
    number = folder.removeprefix(_LAYOUT)
    return int(number) if number != folder and number.isdecimal() else 0


def _folder(layout: int) -> str:
    return f"{_LAYOUT}{layout}"


def split_widths(graph: JobGraph) -> dict[str, int]:
    """Source with splits -> how many subtasks it has."""
    return {vertex.uid: vertex.parallelism for vertex in graph.vertices if vertex.splits}
