"""Planning of a job: its graph, and its queries with their schemas. A job that could not run is refused."""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_provider_ckpt.job.chaining import bounded_chain, build_graph
from airflow_provider_ckpt.job.definition_parts import (
    plain_path,
    selection_options,
    sink_definitions,
    source_definition,
)
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options.run_options import Mode, RunOptions, RuntimeMode
from airflow_provider_ckpt.model.definition import JobDefinition, VertexDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.kept_state import KeptState
from airflow_provider_ckpt.sinks.sink import SinkInput
from airflow_provider_ckpt.spark.plan.builder import BuiltQuery, QueryBuilder, SourceCalls
from airflow_provider_ckpt.spark.plan.left_out_inputs import check_left_out, check_like_event_times
from airflow_provider_ckpt.spark.plan.planned_splits import PlannedSplits, split_frame
from airflow_provider_ckpt.spark.plan.query_state import kept_state
from airflow_provider_ckpt.spark.query.analysed_plan import (
    batch_refusal,
    holds_watermark,
    is_stateful,
    joins_streams,
    leaf_ids,
    refusal,
    watermark_over,
    watermark_over_union,
)
from airflow_provider_ckpt.spark.query.edge_schema import event_time, plain, with_watermark
from airflow_provider_ckpt.spark.query.errors import UnsupportedQueryError
from airflow_provider_ckpt.spark.query.event_time import hold_event_time, unordered_inputs
from airflow_provider_ckpt.spark.query.finished_work import FinishedWork
from airflow_provider_ckpt.spark.query.sources.lookup_tables import lookup_tables
from airflow_provider_ckpt.spark.query.sources.malformed import QUARANTINE
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.spark.query.unions import Unions
from airflow_provider_ckpt.storage.redaction import redact_uri

log = logging.getLogger(__name__)
DEFAULT_LIMIT = 128 * 1024 * 1024
"""Maximum number of bytes that a bounded file source reads in a micro-batch, so that live sources are not starved."""


@dataclass(frozen=True)
class JobPlan:
    graph: JobGraph
    mode: RuntimeMode
    schemas: Mapping[str, StructType]
    """Vertex uid -> schema of its output."""
    reads: Mapping[str, SourceReads]
    """Source uid -> format, paths and options of its function."""
    definition: JobDefinition
    changeable: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Sink uid -> keys of the sink's definition whose values may change between two runs."""
    unions: Mapping[str, Unions] = field(default_factory=dict)
    """Vertex uid -> its unions. Finished vertices are left out."""
    splits: PlannedSplits = field(default_factory=PlannedSplits)
    sink_inputs: Mapping[str, SinkInput] = field(default_factory=dict)
    """Sink uid -> description of its input. Sinks of finished queries are left out."""
    changing: frozenset[str] = frozenset()
    """Vertices whose output may have rows that replace earlier rows."""
    lookups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Vertex of a streaming job -> folders of lookup files, which its query lists only when it starts."""

    def schemas_json(self) -> dict[str, str]:
        return {uid: plain(schema).json() for uid, schema in self.schemas.items()}

    def topics(self) -> dict[str, Mapping[str, str]]:
        """Return Kafka source -> (topic name -> topic id), for the sources whose topics have known ids."""
        return {uid: read.topics for uid, read in self.reads.items() if read.topics}

    def state_partitions(self) -> dict[str, int]:
        """Return vertex -> how many partitions its state has. Vertices without state are left out."""
        vertices = self.definition.vertices.items()
        return {uid: number for uid, vertex in vertices if (number := vertex.shuffle_partitions) is not None}

    def has_event_time(self) -> bool:
        """Return whether any query has a watermark, so that the order of its input rows matters."""
        return any(vertex.event_time for vertex in self.definition.vertices.values())

    def stateful(self) -> frozenset[str]:
        """Return the vertices whose queries keep state."""
        return frozenset(uid for uid, vertex in self.definition.vertices.items() if vertex.stateful)

    def aligned(self) -> bool:
        """Return whether barriers must be aligned, because sinks have unlike numbers of queries before them (R24)."""
        return len(set(self.graph.sink_depths().values())) > 1


def read_limit(options: RunOptions) -> int:
    return options.max_bytes_per_trigger or DEFAULT_LIMIT


def plan_job(
    spark: SparkSession,
    job: Job,
    options: RunOptions,
    done: FinishedWork | None = None,
    splits: PlannedSplits | None = None,
) -> JobPlan:
    """Return the plan of a job, without reading data.

    Every query is analysed. The user's functions are called, except functions of sources and vertices that ``done`` has
    as finished. ``done``: None for a job without earlier runs. ``splits``: None for a job without splits.

    Raises InvalidInputError.
    """
    done, splits = done or FinishedWork(), splits or PlannedSplits()
    mode = job.runtime_mode(_mode(options, done))
    calls = SourceCalls(spark, streaming=mode == "streaming", limit=read_limit(options))
    readers = [source.uid for source in job.sources if source.bounded and source.splits is None]
    inline = {uid for uid in readers if _is_inline(job, uid, calls, done)}
    graph = build_graph(job, inline=lambda uid: mode == "streaming" and uid in inline, parallelism=splits.subtasks)
    with tempfile.TemporaryDirectory(prefix="ckpt-plan-") as nothing:
        planner = _Planner(spark, job, graph, calls, nothing, done, splits)
        for vertex in graph.vertices:
            planner.plan(vertex)
    changeable = {operator.uid: frozenset(operator.sink.changeable) for operator in job.sinks}
    definition = _definition(job, mode, calls.reads, planner.vertices, options.params)
    schemas, unions, inputs, lookups = planner.schemas, planner.unions, planner.sink_inputs, planner.lookups
    changing = frozenset(planner.changing)
    return JobPlan(graph, mode, schemas, calls.reads, definition, changeable, unions, splits, inputs, changing, lookups)


def _mode(options: RunOptions, done: FinishedWork) -> Mode:
    """Return the mode of this run's options. If it is "auto", return the recorded mode of the first run, if any.

    :func:`check_resumable` refuses a change of the mode.
    """
    return options.mode if options.mode != "auto" or done.mode is None else done.mode


def _is_inline(job: Job, uid: str, calls: SourceCalls, done: FinishedWork) -> bool:
    """Return whether an unbounded consumer reads a bounded source in its own query.

    If the first run did not, no later run does. If the first run did, a source that has not finished is checked again.
    """
    recorded = done.inline.get(uid)
    if recorded is not None and (uid in done.over or not recorded):
        return recorded
    return _can_inline(job, uid, calls)


def declared(job: Job, mode: RuntimeMode, params: Mapping[str, str]) -> JobDefinition:
    """Return the parts of a job's definition that are known without calling the user's functions."""
    return _definition(job, mode, {}, {}, params)


def _definition(
    job: Job,
    mode: RuntimeMode,
    reads: Mapping[str, SourceReads],
    vertices: Mapping[str, VertexDefinition],
    params: Mapping[str, str],
) -> JobDefinition:
    sources = {}
    for operator in job.sources:
        sources[operator.uid] = source_definition(operator)
        if read := reads.get(operator.uid):
            sources[operator.uid] = replace(
                sources[operator.uid],
                format=read.format.lower(),
                paths=tuple(plain_path(redact_uri(path)) for path in read.paths),
                selects=selection_options(read.options),
                topics=dict(read.topics),
            )
    inputs = {uid: operator.input_uids for uid, operator in job.operators.items() if operator.inputs}
    return JobDefinition(mode, sources, dict(vertices), sink_definitions(job.sinks), dict(params), inputs)


def _can_inline(job: Job, uid: str, calls: SourceCalls) -> bool:
    """Return whether an unbounded consumer can read a bounded source in its own query.

    For that, it must be possible to freeze the source's end before it is read. The operators between the source and the
    consumer must have a single input each, and no state.
    """
    frame = calls(job.operators[uid])
    if not calls.reads[uid].has_end:
        return False
    for name in bounded_chain(job, uid):
        operator = job.operators[name]
        if len(operator.inputs) != 1:
            return False
        frame = calls.transform(operator, dict.fromkeys(operator.inputs, frame))
    return not is_stateful(frame)


def _readable_state(uid: str, built: BuiltQuery) -> tuple[KeptState, ...]:
    """Return descriptions of the state that a query keeps; empty, with a warning, if Spark's plan cannot be read."""
    try:
        return tuple(kept_state(built.frame))
    except Py4JError as error:
        kind = type(error).__name__  # the error's text holds the plan, with texts of the user
        log.warning("the state of query %s cannot be read, and is not compared with later runs (%s)", uid, kind)
        return ()


class _Planner:
    """Planner of a job, vertex by vertex. ``nothing``: an empty folder, which is read in place of result partitions."""

    def __init__(
        self,
        spark: SparkSession,
        job: Job,
        graph: JobGraph,
        calls: SourceCalls,
        nothing: str,
        done: FinishedWork,
        splits: PlannedSplits,
    ) -> None:
        self._spark, self._job, self._graph, self._calls, self._nothing = spark, job, graph, calls, nothing
        self._done, self._splits = done, splits
        self.schemas: dict[str, StructType] = {}
        self.vertices: dict[str, VertexDefinition] = {}
        """Vertex uid -> its definition. Finished vertices are left out."""
        self.unions: dict[str, Unions] = {}
        self.sink_inputs: dict[str, SinkInput] = {}
        self._mixed: set[str] = set()
        """Vertices whose output mixes rows of several sources or splits, so that event time may jump back and forth."""
        self.changing: dict[str, str] = {}
        """Vertex whose output may have rows that replace earlier rows -> output mode that causes this."""
        self.lookups: dict[str, tuple[str, ...]] = {}

    def plan(self, vertex: JobVertex) -> None:
        if vertex.uid in self._done.schemas:
            self.schemas[vertex.uid] = self._done.schemas[vertex.uid]
            if vertex.splits or self._unites(vertex):
                self._mixed.add(vertex.uid)
            self._follow_changes_of_ended(vertex)
            return
        if vertex.splits:
            self._plan_splits(vertex)
            return
        edges = {edge.uid: edge.producer for edge in self._graph.inputs(vertex.uid)}

        def placeholder(edge: str, hold: bool) -> DataFrame:
            return self._placeholder(edge, self.schemas[edges[edge]], hold)

        recorded_unions = self._done.unions.get(vertex.uid)
        operators, inputs = self._job.operators, self._graph.inputs(vertex.uid)
        unordered = unordered_inputs(operators, self._graph, vertex)
        is_read = self._graph.publishes(vertex.uid)

        def builder_of(unions: Unions | None) -> QueryBuilder:
            return QueryBuilder(operators, vertex, inputs, self._calls, placeholder, unions, unordered, is_read=is_read)

        builder = builder_of(recorded_unions)
        dropped = self._done.dropped.get(vertex.uid, frozenset())
        built = builder.build(dropped)
        if self._calls.streaming:
            check_like_event_times(operators[vertex.uid], built, edges)
        self._check_supported(vertex, built)
        bounded = {edge.uid for edge in inputs if self._graph.vertex(edge.producer).bounded}
        bounded = (bounded | set(vertex.bounded_sources)) - dropped
        if self._calls.streaming and not vertex.bounded and bounded:
            self._check_event_time(vertex, builder, built, bounded, dropped)
        if self._calls.streaming:
            self._follow_event_time(vertex, builder, built, dropped)
            if built.stateful:
                self._check_idle_timeouts(vertex)
            self._follow_changes(vertex, built, dropped)
            without = builder_of({**(recorded_unions or {}), **builder.unions})
            check_left_out(operators[vertex.uid], without, built, bounded, dropped, edges)
            if tables := lookup_tables(built.frame):
                self.lookups[vertex.uid] = tables
        # Files carry no watermark. A watermark that is computed from rows of several sources would follow the
        # fastest source, and make rows of the others late.
        self.schemas[vertex.uid] = plain(built.schema) if vertex.uid in self._mixed else built.schema
        mark = event_time(self.schemas[vertex.uid])
        self.unions[vertex.uid] = builder.unions
        unions = tuple(union.recorded(*key) for key, union in builder.unions.items())
        parts = self._shuffle_partitions(vertex.uid, built)
        self.vertices[vertex.uid] = VertexDefinition(
            built.output_mode,
            built.stateful,
            mark,
            parts,
            unions,
            event_time=built.watermark,
            lags=built.joins_streams,
            kept=_readable_state(vertex.uid, built) if built.stateful and self._calls.streaming else (),
        )
        self._check_sinks(vertex, built.frame, self.changing.get(vertex.uid, "append"))

    def _plan_splits(self, vertex: JobVertex) -> None:
        """Plan a source with splits by the DataFrame of its first split, because all splits have the same columns."""
        operator = self._job.operators[vertex.uid]
        frame = split_frame(self._spark, operator, self._splits.lists[vertex.uid][0])
        self.schemas[vertex.uid] = plain(frame.schema)
        self.vertices[vertex.uid] = VertexDefinition("append", stateful=False)
        self._mixed.add(vertex.uid)
        self._check_sinks(vertex, frame, "append")

    def _shuffle_partitions(self, uid: str, built: BuiltQuery) -> int | None:
        """Return how many partitions the state of a streaming query has; None if the query keeps no state.

        A number that a request has set comes first, then the number that an earlier run has recorded. Spark does not
        always record it, and cannot read the state with another number. New state gets the session's number.
        """
        if not (built.stateful and self._calls.streaming):
            return None
        settings = self._done.settings.get(uid)
        if settings is not None and settings.state_partitions is not None:
            return settings.state_partitions
        recorded = self._done.state_partitions.get(uid)
        return int(str(self._spark.conf.get("spark.sql.shuffle.partitions"))) if recorded is None else recorded

    def _follow_event_time(
        self, vertex: JobVertex, builder: QueryBuilder, built: BuiltQuery, dropped: frozenset[str]
    ) -> None:
        """Refuse a watermark on an edge whose rows are mixed, and record in ``_mixed`` whether this vertex mixes rows.

        Its finished sources count as well, because their rows are still in its output.
        """
        edges = self._graph.inputs(vertex.uid)
        for edge in edges:
            read = edge.producer in self._mixed and edge.uid not in dropped and not builder.holds_event_time(edge.uid)
            if read and watermark_over(built.frame, leaf_ids(builder.inputs[edge.uid])):
                location = self._job.operators[vertex.uid].location
                if self._graph.vertex(edge.producer).splits:
                    raise UnsupportedQueryError(
                        "the watermark in {uid!r} ({location}) is set on the result of {producer!r}, whose splits are "
                        "read in no order: rows of a split that is read later would be late, and dropped. Group by "
                        "columns, or run the job in batch mode, where results are final without a watermark",
                        uid=vertex.uid,
                        location=location,
                        producer=edge.producer,
                    )
                raise UnsupportedQueryError(
                    "the watermark in {uid!r} ({location}) is set on the result of {producer!r}, which unites or "
                    "joins several sources in a query of its own: it would follow the fastest of them, and rows of "
                    "the others would be late. Set it on the sources and work on those, or let the two share a query "
                    "(no chain=False, no sink or second consumer between them)",
                    uid=vertex.uid,
                    location=location,
                    producer=edge.producer,
                )
        if self._unites(vertex) or joins_streams(built.frame):
            self._mixed.add(vertex.uid)

    def _follow_changes(self, vertex: JobVertex, built: BuiltQuery, dropped: frozenset[str]) -> None:
        """Refuse state over rows of another query that replace earlier rows. Record whether this vertex has such rows.

        Spark itself refuses such state only within one query.
        """
        edges = [edge for edge in self._graph.inputs(vertex.uid) if edge.uid not in dropped]
        changing = [edge.producer for edge in edges if edge.producer in self.changing]
        if changing and built.stateful:
            raise UnsupportedQueryError(
                "{uid!r} ({location}) keeps state over the rows of {producer!r}, which change (output_mode {mode!r}): "
                "it would take each change of a row for another row, and its totals would be too high. Work on the "
                "inputs of {producer!r} instead, or have {producer!r} give each row once: a window over event time in "
                "output_mode 'append', or bounded inputs, of which only the final answer is passed on",
                uid=vertex.uid,
                location=self._job.operators[vertex.uid].location,
                producer=changing[0],
                mode=self.changing[changing[0]],
            )
        if built.changes_rows:
            self.changing[vertex.uid] = built.output_mode
        elif changing:
            self.changing[vertex.uid] = self.changing[changing[0]]

    def _follow_changes_of_ended(self, vertex: JobVertex) -> None:
        """Record whether a finished vertex has output rows that replace earlier rows. Consumers may still read them."""
        modes: list[str] = [self._job.operators[uid].output_mode for uid in vertex.operators]
        producers = [edge.producer for edge in self._graph.inputs(vertex.uid)]
        modes += [self.changing[uid] for uid in producers if uid in self.changing]
        changing = next((mode for mode in modes if mode != "append"), None)
        if changing is not None and not vertex.bounded:
            self.changing[vertex.uid] = changing

    def _unites(self, vertex: JobVertex) -> bool:
        edges = self._graph.inputs(vertex.uid)
        return len(vertex.sources) + len(edges) > 1 or any(edge.producer in self._mixed for edge in edges)

    def _check_sinks(self, vertex: JobVertex, frame: DataFrame, output_mode: str) -> None:
        if self._writes_files(vertex) and (column := unwritable_time(self._spark, frame.schema)) is not None:
            location = self._job.operators[vertex.uid].location
            raise UnsupportedQueryError(
                "the output of operator {uid!r} ({location}) has the type TIME in column {column!r}. Spark writes "
                "this type to files only with spark.sql.timeType.enabled=true. Set that with --conf, or cast the "
                "column to STRING",
                uid=vertex.uid,
                location=location,
                column=column,
            )
        fields = json.loads(frame.schema.json())["fields"]
        columns = tuple((field["name"], field["type"]) for field in fields)
        not_null = frozenset(field["name"] for field in fields if not field["nullable"])
        for uid in vertex.sinks:
            sink_input = SinkInput(uid, columns, output_mode, vertex.bounded, not_null)
            if self._job.operators[uid].quarantine:
                sink_input = SinkInput(
                    uid, tuple((field.name, "string") for field in QUARANTINE), "append", vertex.bounded
                )
            self._job.operators[uid].sink.check_input(sink_input)
            self.sink_inputs[uid] = sink_input

    def _writes_files(self, vertex: JobVertex) -> bool:
        """Return whether Spark writes the rows of the vertex to files, for a consumer, several sinks or a file sink."""
        sinks = [self._job.operators[uid].sink for uid in vertex.sinks]
        return self._graph.publishes(vertex.uid) or len(sinks) != 1 or any(sink.spark_folders({}) for sink in sinks)

    def _check_supported(self, vertex: JobVertex, built: BuiltQuery) -> None:
        if self._calls.streaming:
            cause, setting = refusal(built.frame, built.output_mode), f"in output mode {built.output_mode!r}"
        else:
            cause, setting = batch_refusal(built.frame), "in batch mode"
        if cause is None:
            return
        hint = self._advice(vertex) if "watermark" in cause.lower() else ""
        location = self._job.operators[vertex.uid].location
        raise UnsupportedQueryError(
            "Spark cannot run the query of {vertex!r} ({location}) {how}: {cause}{hint}",
            vertex=vertex.uid,
            location=location,
            how=setting,
            cause=cause.rstrip("."),
            hint=hint,
        )

    def _advice(self, vertex: JobVertex) -> str:
        """Return advice for a query that Spark refuses because of a missing watermark."""
        read_by = next((edge.consumer for edge in self._graph.outputs(vertex.uid)), None)
        mixed = [edge.producer for edge in self._graph.inputs(vertex.uid) if edge.producer in self._mixed]
        by_split = [uid for uid in mixed if self._graph.vertex(uid).splits]
        if by_split:
            mode = "" if read_by else "output_mode 'complete' or 'update', or "
            return (
                f"; the splits of {by_split[0]!r} are read in no order of event time, so it has no watermark: choose "
                f"{mode}batch mode, where results are final without one"
            )
        if mixed:
            return (
                f"; {mixed[0]!r} unites or joins several sources in a query of its own, and event time is not carried "
                "out of that: work on the sources themselves, or let the two share a query (no chain=False, no sink "
                "or second consumer between them)"
            )
        advice = (
            "; give the sources a watermark and group by a window or a column with it (by F.window(...) itself, "
            "not by its start)"
        )
        if read_by is None:
            return f"{advice}, or choose another output_mode"
        return (
            f"{advice}. Another output_mode does not help: {read_by!r} reads the rows, and would take each change of a "
            "row for another row"
        )

    def _check_event_time(
        self, vertex: JobVertex, builder: QueryBuilder, built: BuiltQuery, bounded: set[str], dropped: frozenset[str]
    ) -> None:
        """Refuse a watermark after the union of a bounded and a live input. It would make rows of history late (R13).

        Also refuse a bounded input with its own watermark if the query cannot leave this input out at its end. The
        event time of the other inputs would stop.
        """
        location = self._job.operators[vertex.uid].location
        if watermark_over_union(built.frame):
            raise UnsupportedQueryError(
                "the watermark in {uid!r} ({location}) is set after the union of a bounded and a live source: the "
                "live one would make history late, and its rows would be dropped. Set it on each source "
                "(@job.source(watermark=(column, delay))), or call withWatermark on the input before anything else",
                uid=vertex.uid,
                location=location,
            )
        for uid in sorted(bounded) if built.stateful else ():
            if not builder.can_drop(uid, dropped) and holds_watermark(built.frame, leaf_ids(builder.inputs[uid])):
                raise UnsupportedQueryError(
                    "bounded input {uid!r} of {vertex!r} ({location}) has a watermark and is the only input of its "
                    "parameter, so it cannot be left out when it ends, and the other inputs' event time would never "
                    "advance; read it without a watermark",
                    uid=uid,
                    vertex=vertex.uid,
                    location=location,
                )

    def _check_idle_timeouts(self, vertex: JobVertex) -> None:
        """Refuse ``idle_timeout`` for a source whose rows this query reads from another query, besides other inputs."""
        for edge in self._graph.inputs(vertex.uid) if self._unites(vertex) else ():
            for uid in sorted(self._graph.upstream_sources(edge.producer)):
                source = self._job.operators[uid]
                if source.idle_timeout is not None:
                    about = {"uid": uid, "location": source.location, "vertex": vertex.uid, "producer": edge.producer}
                    raise UnsupportedQueryError(
                        "the query of {vertex!r} cannot keep the idle_timeout of source {uid!r} ({location}): it "
                        "reads the rows of the source from the query of {producer!r}, besides other inputs, and "
                        "cannot see whether the source is idle. Let the two share a query (no chain=False, no sink or "
                        "second consumer between them), or leave idle_timeout out",
                        **about,
                    )

    def _placeholder(self, edge: str, schema: StructType, hold: bool) -> DataFrame:
        if not self._calls.streaming:
            return self._spark.read.schema(plain(schema)).parquet(f"file://{self._nothing}")
        frame = self._spark.readStream.name(edge).schema(plain(schema)).parquet(f"file://{self._nothing}")
        return with_watermark(hold_event_time(frame) if hold else frame, schema)


_SETTING = "spark.sql.timeType.enabled"
_TIME = re.compile(r'(?<!"name":)"time\(\d+\)"')


def unwritable_time(spark: SparkSession, schema: StructType) -> str | None:
    """Return the first column that has the type TIME or contains it; None if Spark can write all columns.

    Spark analyses such a column without an error, and fails when it writes the column.
    """
    if not spark.conf.isModifiable(_SETTING) or spark.conf.get(_SETTING) == "true":
        return None  # another version of Spark has no such setting
    return next((field.name for field in schema.fields if _TIME.search(field.dataType.json())), None)
