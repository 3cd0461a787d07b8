"""From a job to what will run, before anything is written: graph, queries, schemas, refusals."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_provider_ckpt.coordinator.finished import check_restore
from airflow_provider_ckpt.errors import (
    GraphChangedError,
    HeldWatermarkError,
    SchemaChangedError,
    UnsupportedQueryError,
    WatermarkOverUnionError,
)
from airflow_provider_ckpt.job.chaining import bounded_chain, build_graph
from airflow_provider_ckpt.job.graph import ExecutionGraph, Vertex
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options import RunOptions, RuntimeMode
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.spark.edge_schema import plain, with_watermark
from airflow_provider_ckpt.spark.plan import holds_watermark, is_stateful, leaf_ids, refusal, watermark_over_union
from airflow_provider_ckpt.spark.query import BuiltQuery, QueryBuilder, SourceCalls, call, can_drop
from airflow_provider_ckpt.spark.reader import SourceReads

DEFAULT_LIMIT = 128 * 1024 * 1024
"""Bytes of a bounded file source in one micro-batch: history must not starve the live feed beside it."""


@dataclass(frozen=True)
class JobPlan:
    graph: ExecutionGraph
    mode: RuntimeMode
    schemas: Mapping[str, StructType]
    """Vertex uid -> schema of its output."""
    reads: Mapping[str, SourceReads]
    """Source uid -> what it reads."""

    def schemas_json(self) -> dict[str, str]:
        return {uid: plain(schema).json() for uid, schema in self.schemas.items()}

    def aligned(self) -> bool:
        """Sinks at different depths show the same source prefix only if barriers are aligned (R24)."""
        depth: dict[str, int] = {}
        for vertex in self.graph.vertices:
            inputs = self.graph.inputs(vertex.uid)
            depth[vertex.uid] = 1 + max((depth[edge.producer] for edge in inputs), default=0)
        return len({depth[v.uid] for v in self.graph.vertices if v.sinks}) > 1


@dataclass(frozen=True)
class Done:
    """What of a job that ran before is over, so that none of its functions is called again: the folders of a
    finished source may be gone. ``inline``: bounded source uid -> whether it was part of an unbounded vertex;
    ``dropped``: vertex -> sources and edges left out; ``schemas``: vertex at its end of data -> its output."""

    inline: Mapping[str, bool] = field(default_factory=dict)
    dropped: Mapping[str, frozenset[str]] = field(default_factory=dict)
    schemas: Mapping[str, StructType] = field(default_factory=dict)

    @staticmethod
    def of(state: JobState) -> Done:
        """Of the graph as it ran; whether the job may still be run with another one is checked later."""
        if state.plan is None:
            return Done()
        vertices = state.plan.graph["vertices"]
        ended = [
            vertex
            for vertex in vertices
            if {f"{vertex['uid']}/{index}" for index in range(vertex["parallelism"])} <= state.end_of_data
        ]
        over = {uid for vertex in ended for uid in vertex["sources"]}
        over |= {uid for uids in state.dropped.values() for uid in uids}
        return Done(
            {uid: not vertex["bounded"] for vertex in vertices for uid in vertex["bounded_sources"] if uid in over},
            {vertex: frozenset(uids) for vertex, uids in state.dropped.items()},
            {one["uid"]: StructType.fromJson(json.loads(state.plan.schemas[one["uid"]])) for one in ended},
        )


def read_limit(options: RunOptions) -> int:
    return options.max_bytes_per_trigger or DEFAULT_LIMIT


def plan_job(spark: SparkSession, job: Job, options: RunOptions, done: Done | None = None) -> JobPlan:
    """Calls the user's functions, but for what is ``done``, and analyses every query; reads schemas, no data.

    Raises InvalidInputError.
    """
    done = done or Done()
    mode = job.runtime_mode(options.mode)
    calls = SourceCalls(spark, streaming=mode == "streaming", limit=read_limit(options))
    inline = {
        source.uid
        for source in job.sources
        if source.bounded
        and (done.inline[source.uid] if source.uid in done.inline else _can_inline(job, source.uid, calls))
    }
    graph = build_graph(job, inline=lambda uid: mode == "streaming" and uid in inline)
    with tempfile.TemporaryDirectory(prefix="ckpt-plan-") as nothing:
        planner = _Planner(spark, job, graph, calls, nothing, done)
        for vertex in graph.vertices:
            planner.plan(vertex)
    return JobPlan(graph, mode, planner.schemas, calls.reads)


def _can_inline(job: Job, uid: str, calls: SourceCalls) -> bool:
    """Its end can be read off a file list, and nothing between it and its unbounded consumer keeps state."""
    frame = calls(job.operators[uid])
    if not calls.reads[uid].is_file:
        return False
    for name in bounded_chain(job, uid):
        operator = job.operators[name]
        if len(operator.inputs) != 1:
            return False
        frame = call(operator, dict.fromkeys(operator.inputs, frame))
    return not is_stateful(frame)


class _Planner:
    """``nothing``: an empty folder, which stands for result partitions that do not exist yet."""

    def __init__(
        self, spark: SparkSession, job: Job, graph: ExecutionGraph, calls: SourceCalls, nothing: str, done: Done
    ) -> None:
        self._spark, self._job, self._graph, self._calls, self._nothing = spark, job, graph, calls, nothing
        self._done = done
        self.schemas: dict[str, StructType] = {}

    def plan(self, vertex: Vertex) -> None:
        if vertex.uid in self._done.schemas:
            self.schemas[vertex.uid] = self._done.schemas[vertex.uid]
            return
        edges = {edge.uid: edge.producer for edge in self._graph.inputs(vertex.uid)}

        def placeholder(edge: str) -> DataFrame:
            return self._placeholder(edge, self.schemas[edges[edge]])

        builder = QueryBuilder(self._job, vertex, self._graph.inputs(vertex.uid), self._calls, placeholder)
        dropped = self._done.dropped.get(vertex.uid, frozenset())
        built = builder.build(dropped)
        if self._calls.streaming:
            self._check_supported(vertex, built)
        edges_in = self._graph.inputs(vertex.uid)
        bounded = {edge.uid for edge in edges_in if self._graph.vertex(edge.producer).bounded}
        bounded = (bounded | set(vertex.bounded_sources)) - dropped
        if self._calls.streaming and not vertex.bounded and bounded:
            self._check_event_time(vertex, builder, built, bounded, dropped)
        self.schemas[vertex.uid] = built.schema

    def _check_supported(self, vertex: Vertex, built: BuiltQuery) -> None:
        cause = refusal(built.frame, built.output_mode)
        if cause is None:
            return
        hint = ""
        if "watermark" in cause.lower():
            hint = (
                "; give the sources a watermark and group by a window or a column with it (by F.window(...) itself, "
                "not by its start), or choose another output_mode"
            )
        location = self._job.operators[vertex.uid].location
        raise UnsupportedQueryError(
            vertex=vertex.uid, location=location, mode=built.output_mode, cause=cause.rstrip("."), hint=hint
        )

    def _check_event_time(
        self, vertex: Vertex, builder: QueryBuilder, built: BuiltQuery, bounded: set[str], dropped: frozenset[str]
    ) -> None:
        """A watermark that a bounded and a live input share makes history late; and (R13) a bounded input that
        cannot be left out when it ends would hold event time for ever."""
        location = self._job.operators[vertex.uid].location
        if watermark_over_union(built.frame):
            raise WatermarkOverUnionError(uid=vertex.uid, location=location)
        for uid in sorted(bounded) if built.stateful else ():
            if not can_drop(builder, uid, dropped) and holds_watermark(built.frame, leaf_ids(builder.inputs[uid])):
                raise HeldWatermarkError(uid=uid, vertex=vertex.uid, location=location)

    def _placeholder(self, edge: str, schema: StructType) -> DataFrame:
        if not self._calls.streaming:
            return self._spark.createDataFrame([], plain(schema))
        frame = self._spark.readStream.name(edge).schema(plain(schema)).parquet(f"file://{self._nothing}")
        return with_watermark(frame, schema)


def check_resumable(state: JobState, plan: JobPlan, *, allow_non_restored_state: bool) -> None:
    """Refuse to go on with another job under the same id. Operators are matched by uid: new ones start empty,
    gone ones need ``allow_non_restored_state``, and none may move to another vertex or change its output.

    Raises GraphChangedError, SchemaChangedError, IllegalGraphChangeError.
    """
    if state.plan is None:
        return
    before, after = _places(state.plan.graph), _places(plan.graph.to_json())
    moved = sorted(uid for uid in before.keys() & after.keys() if before[uid] != after[uid])
    gone = sorted(before.keys() - after.keys())
    if moved or (gone and not allow_non_restored_state):
        raise GraphChangedError(gone=", ".join(gone) or "none", moved=", ".join(moved) or "none")
    _check_edges(state.plan.graph, plan)
    for uid, schema in plan.schemas_json().items():
        known = state.plan.schemas.get(uid, schema)
        if known != schema:
            was = StructType.fromJson(json.loads(known)).simpleString()
            raise SchemaChangedError(vertex=uid, before=was, after=plan.schemas[uid].simpleString())
    last = state.checkpoints.get(state.last_completed)
    if last is not None:
        check_restore(plan.graph, last.operators, allow_non_restored_state=allow_non_restored_state)


def _check_edges(before: Mapping[str, Any], plan: JobPlan) -> None:
    """A result partition is laid out for the consumers it had when the job began."""
    old = {vertex["uid"]: set[str]() for vertex in before["vertices"]}
    for edge in before["edges"]:
        old[edge["producer"]].add(edge["uid"])
    for uid, edges in old.items():
        now = {edge.uid for edge in plan.graph.outputs(uid)}
        if any(vertex.uid == uid for vertex in plan.graph.vertices) and now != edges:
            raise GraphChangedError(gone="none", moved=f"the consumers of {uid}")


def _places(graph: Mapping[str, Any]) -> dict[str, tuple[str, bool]]:
    """Operator uid -> its vertex and whether that is bounded."""
    return {
        uid: (vertex["uid"], vertex["bounded"])
        for vertex in graph["vertices"]
        for uid in [*vertex["operators"], *vertex["sinks"]]
    }
