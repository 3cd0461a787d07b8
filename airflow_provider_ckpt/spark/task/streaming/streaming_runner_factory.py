"""The factory for the runner of a subtask in STREAMING mode, with its Spark folder, inputs and outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_provider_ckpt.job.operators import SourceOptions
from airflow_provider_ckpt.job.reconfigured import reconfigured_vertex
from airflow_provider_ckpt.model.channel import Channel, channels
from airflow_provider_ckpt.model.graph import JobVertex, layout_of
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.spark.plan.builder import QueryBuilder, SourceCalls
from airflow_provider_ckpt.spark.plan.job_plan import read_limit
from airflow_provider_ckpt.spark.query.edge_schema import event_time, plain
from airflow_provider_ckpt.spark.query.event_time import (
    EventTimeGuard,
    hold_event_time,
    max_ahead_of,
    unordered_inputs,
)
from airflow_provider_ckpt.spark.query.kafka.offsets import FrozenOffsets
from airflow_provider_ckpt.spark.query.sources.exchange_files import READ
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.query.sources.frozen_files import unescaped_path
from airflow_provider_ckpt.spark.query.sources.reader import NEVER_FORGOTTEN
from airflow_provider_ckpt.spark.query.sources.shared_files import choice_of, followers
from airflow_provider_ckpt.spark.query.unions import Unions
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.outputs import Outputs, PartitionTarget
from airflow_provider_ckpt.spark.task.source_content import SourceContent
from airflow_provider_ckpt.spark.task.streaming.micro_batches import MicroBatches
from airflow_provider_ckpt.spark.task.streaming.query_dry_run import QueryDryRuns
from airflow_provider_ckpt.spark.task.streaming.state_repartition import repartition_state
from airflow_provider_ckpt.spark.task.streaming.streaming_runner import StreamingRunner
from airflow_provider_ckpt.sparkfiles.attempt_folders import (
    AttemptFolders,
    attempts_before,
    delete_trials_before,
    last_publisher,
)
from airflow_provider_ckpt.sparkfiles.channel_feed import ChannelFeed
from airflow_provider_ckpt.sparkfiles.edge_feed import EdgeFeed
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles, shown_path
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.layout import partition_path, prepared_path, subtask_path
from airflow_provider_ckpt.subtasklog.input_gate import InputGate
from airflow_provider_ckpt.subtasklog.log_reader import EdgeLog, LogReader
from airflow_provider_ckpt.subtasklog.prepared_store import PreparedStore
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.bounded_offsets import BoundedOffsets
from airflow_provider_ckpt.task.read_files import key_of
from airflow_provider_ckpt.task.vertex_inputs import BoundedInput, EdgeInput, Inputs, past_inputs


class StreamingRunnerFactory:
    """The factory of all StreamingRunners of one run.

    Args:
        logs: subtask → the log of its current attempt, if that attempt writes in this process.
        frozen: source → its frozen end. The input of a bounded source is the unread part of its end.
        schemas: vertex → the schema of its output.
        aligned_timeout: seconds of alignment after which a gate becomes unaligned; None for no timeout.
        whole: True if each batch of a producer is read as one batch, however large it is. Spark groups files by size,
            not by event time. If a batch were read in parts, the first parts would make rows of later parts late (R13).
        changing: vertices whose rows replace earlier ones. Each of their batches is read as a whole, and alone.
    """

    def __init__(
        self,
        context: RunContext,
        logs: Mapping[SubtaskId, SubtaskLog],
        sinks: Mapping[str, BoundSink],
        frozen: Mapping[str, FrozenEnd],
        schemas: Mapping[str, StructType],
        unions: Mapping[str, Unions],
        *,
        log_of: Callable[[SubtaskId], LogReader],
        aligned: bool,
        aligned_timeout: float | None,
        whole: bool = False,
        stateful: Collection[str] = (),
        changing: Collection[str] = (),
    ) -> None:
        self._changing = frozenset(changing)
        self._whole, self._stateful = whole, stateful
        self._context, self._logs, self._sinks = context, logs, sinks
        self._log_of = log_of
        self._frozen, self._schemas, self._unions = frozen, schemas, unions
        self._aligned, self._aligned_timeout = aligned, aligned_timeout

    def make(
        self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan, since: int, *, restores: bool
    ) -> StreamingRunner:
        """Make the runner of an attempt, with its Spark folder.

        The attempt must have opened the subtask's log, so that earlier attempts are fenced.

        Args:
            since: attempts of the vertex in epochs before this one are ignored.
            restores: True if the attempt restores a checkpoint. The log shows which batches the checkpoint covers.
                Otherwise the attempt resumes after the last published batch.
        """
        context, vertex = self._context, self._context.graph.vertex(subtask.vertex)
        home = subtask_path(context.job_id, subtask.vertex, subtask.number)
        log = self._logs[subtask]
        folders = AttemptFolders(context.storage, f"{home}/spark")
        previous = folders.previous(log.records(), attempt, since)
        last_batch = log.state.last_batch
        folders.refuse_lost(previous, last_batch, restores=restores)  # before anything is fed, published or deleted
        # before the folder is complete, because an interrupted restore is repeated until every folder is complete
        fresh = restores or previous is None  # otherwise an earlier query has read batches that are not void
        edges = {
            key: e
            for key, e in self._edges(subtask, attempt, plan, fresh=fresh).items()
            if e.edge.uid not in plan.without
        }
        folder = folders.create(
            attempt,
            previous if last_batch is not None or not restores else None,
            rewind_to=last_batch.batch_id if last_batch is not None and restores else None,
            edges=[edge.uid for edge in context.graph.inputs(vertex.uid)],
            past=past_inputs(edges.values(), last_batch),
            abandoned={key_of(path) for path in context.forgotten_files},
        )
        prepared = PreparedStore(context.storage, prepared_path(context.job_id, subtask.vertex, subtask.number))
        of_attempt = AttemptContext(context, subtask, attempt, log, plan.parallelism)
        batches = MicroBatches(
            of_attempt,
            vertex,
            folder=folder,
            inputs=self._inputs(vertex, edges, plan, folder),
            outputs=self.outputs(of_attempt, is_stateful=vertex.uid in self._stateful, streaming=True),
            prepared=prepared,
            plan=plan,
            stateful=vertex.uid in self._stateful,
            strict=self._strict_inputs(vertex),
            waits=frozenset(uid for uid in vertex.sources if context.operators[uid].on_unfinished == "wait"),
        )
        continued = last_publisher(log.records())
        batches.recover(() if restores else map(prepared.read, attempts_before(log.records(), attempt, since)))
        if plan.settings is not None:
            repartition_state(context.spark, folder, plan.settings.state_partitions)
        of_attempt.check_fenced()  # so far no append has shown whether the attempt is fenced
        folders.delete_before(attempt, keep=continued)
        prepared.delete_before(attempt)
        forget_earlier = functools.partial(folders.delete_kept_before, attempt, of_attempt.check_fenced)
        add_channels = functools.partial(self._add_channels, subtask, batches.inputs)
        # dry runs of an attempt that died; an overtaken attempt must not delete those of a later attempt
        delete_trials_before(context.storage, f"{home}/trial", attempt)
        trials = QueryDryRuns(context, vertex, folder, f"{home}/trial/{attempt}", reads_whole=self._whole)
        return StreamingRunner(
            context,
            batches,
            functools.partial(self.builder, vertex, edges),
            trials,
            forget_earlier,
            add_channels,
            self._idle_timeouts(vertex),
        )

    def _idle_timeouts(self, vertex: JobVertex) -> dict[str, float]:
        if vertex.uid not in self._stateful:
            return {}
        timeouts = {uid: self._context.operators[uid].idle_timeout for uid in vertex.sources}
        return {uid: timeout for uid, timeout in timeouts.items() if timeout is not None}

    def _strict_inputs(self, vertex: JobVertex) -> dict[str, str]:
        """Return input → one of its sources with ``late_rows="fail"``. Inputs without such a source are omitted."""
        operators, graph = self._context.operators, self._context.graph
        sources = {uid: {uid} for uid in vertex.sources}
        sources |= {edge.uid: {*graph.upstream_sources(edge.producer)} for edge in graph.inputs(vertex.uid)}
        strict = {
            key: sorted(uid for uid in uids if operators[uid].late_rows == "fail") for key, uids in sources.items()
        }
        return {key: uids[0] for key, uids in strict.items() if uids}

    def _add_channels(self, subtask: SubtaskId, inputs: Inputs, plan: VertexPlan) -> None:
        """Add the channels of the plan that ``inputs`` lack. See :meth:`Inputs.add_edges`."""
        siblings = {edge.edge.uid: edge for edge in inputs.edges.values() if edge.edge.uid not in plan.without}
        added: dict[str, EdgeInput] = {}
        for channel in self._channels(subtask, plan):
            sibling = siblings.get(channel.edge.uid)
            if sibling is not None and channel.key not in inputs.edges:
                partition = partition_path(self._context.job_id, channel.producer.vertex, channel.producer.number)
                log = self._log_for(channel)
                added[channel.key] = EdgeInput(
                    channel.edge, log, sibling.feed.for_new_partition(partition), source=sibling.source
                )
        inputs.add_edges(added)

    def _log_for(self, channel: Channel) -> LogReader:
        return EdgeLog(self._log_of(channel.producer), layout_of(channel.edge.folder))

    def _channels(self, subtask: SubtaskId, plan: VertexPlan) -> tuple[Channel, ...]:
        return channels(self._context.graph.rescaled(plan.parallelism), subtask)

    def _edges(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan, *, fresh: bool) -> dict[str, EdgeInput]:
        """Return channel → input from another vertex. ``fresh``: True if the feeds begin empty."""
        last_batch = self._logs[subtask].state.last_batch
        inputs: dict[str, EdgeInput] = {}
        of_subtask = self._channels(subtask, plan)
        feeds = self._feeds(of_subtask, subtask.vertex, attempt, fresh=fresh)
        for channel in of_subtask:
            read = 0 if last_batch is None else last_batch.inputs.get(channel.key, 0)
            feed = feeds[channel.key]
            start = max(feed.fed + 1, read - 1)  # less one after a reset, because that entry may have been read in part
            log = self._log_for(channel)
            for number, record in log.records(max(0, read - 1))[:1]:
                if number == read - 1 and isinstance(record, Batch):
                    feed.note_partly_read(record)
            edge = channel.edge
            inputs[channel.key] = EdgeInput(edge, log, feed, offered=start, read=read, passed=start, source=edge.uid)
        return inputs

    def _feeds(
        self, of_subtask: Iterable[Channel], vertex: str, attempt: AttemptId, *, fresh: bool
    ) -> dict[str, ChannelFeed]:
        """Return channel → its feed. The channels of an edge share one feed, in the first producer's partition."""
        context = self._context
        feeds: dict[str, ChannelFeed] = {}
        for edge in context.graph.inputs(vertex):
            of_edge = [channel for channel in of_subtask if channel.edge == edge]
            partitions = [partition_path(context.job_id, c.producer.vertex, c.producer.number) for c in of_edge]
            location = f"{partitions[0]}/{context.graph.edge_folder(edge)}"
            feed = EdgeFeed(context.storage, location, *partitions, attempt=attempt)
            if fresh:
                feed.reset()
            feed.delete_earlier_feeds()
            for channel, partition in zip(of_edge, partitions, strict=True):
                feeds[channel.key] = ChannelFeed(feed, partition)
        return feeds

    def _inputs(
        self, vertex: JobVertex, edges: Mapping[str, EdgeInput], plan: VertexPlan, folder: SparkFolder
    ) -> Inputs:
        gate = InputGate(
            edges,
            epoch=self._context.epoch,
            aligned=self._aligned,
            aligned_timeout=self._aligned_timeout,
            one_by_one=[key for key, edge in edges.items() if edge.edge.producer in self._changing],
        )
        bounded = {
            uid: bounded_input(self._frozen[uid])
            for uid in vertex.bounded_sources
            if uid in self._frozen and uid not in plan.without
        }
        storage = self._context.storage
        return Inputs(edges, bounded, gate, lambda uid: SeenFiles(storage, f"{folder.path}/sources/{uid}"))

    def builder(
        self, vertex: JobVertex, edges: Mapping[str, EdgeInput], settings: VertexSettings | None
    ) -> QueryBuilder:
        """Return the builder of a vertex's query.

        Args:
            edges: channel → input from another vertex.
            settings: settings of the vertex; None if requests have changed none.

        Raises UnfitLogicError.
        """
        context, settings = self._context, settings or VertexSettings()
        limit = read_limit(context.options)
        guard = EventTimeGuard(observes=vertex.uid in self._stateful)
        followed = followers(context.operators)
        calls = SourceCalls(
            context.spark, streaming=True, limit=limit, ends=self._frozen, followed=followed, guard=guard
        )
        changed = reconfigured_vertex(context.operators, vertex, settings, context.logic)
        operators = {**context.operators, **changed}

        locations = {edge.edge.uid: (edge.edge.producer, edge.feed.location) for edge in edges.values()}

        def edge_frame(uid: str, hold: bool) -> DataFrame:
            producer, location = locations[uid]
            schema = self._schemas[producer]
            reader = context.spark.readStream.name(uid).schema(plain(schema))
            # recursive, because the files are below the feed's folder and their paths must give no partition columns
            options: dict[str, Any] = {**READ, "recursiveFileLookup": True, "maxFileAge": NEVER_FORGOTTEN}
            if not self._whole and producer not in self._changing:
                limits = SourceOptions(settings.max_bytes_per_batch, settings.max_files_per_batch)
                options |= limits.to_spark() or {"maxBytesPerTrigger": str(limit)}
            frame = reader.options(**options).parquet(location)
            max_ahead = max_ahead_of(operators, context.graph, producer)
            held = hold_event_time(frame) if hold else frame
            return guard.of_input(held, event_time(schema), uid=uid, max_ahead=max_ahead)

        edges_of_vertex, unions = context.graph.inputs(vertex.uid), self._unions.get(vertex.uid)
        unordered = unordered_inputs(operators, context.graph, vertex)
        is_read = context.graph.publishes(vertex.uid)
        return QueryBuilder(operators, vertex, edges_of_vertex, calls, edge_frame, unions, unordered, is_read=is_read)

    def _choose(self, uid: str, frame: DataFrame) -> DataFrame:
        operators = self._context.operators
        return choice_of(operators[uid], self._frozen, followers(operators))(frame)

    def _target(self, subtask: SubtaskId) -> PartitionTarget | None:
        graph, vertex = self._context.graph, self._context.graph.vertex(subtask.vertex)
        partition = partition_path(self._context.job_id, subtask.vertex, subtask.number)
        folder = f"{partition}/{graph.data_folder(vertex.uid)}"
        return PartitionTarget(partition, folder, vertex.persist) if graph.publishes(vertex.uid) else None

    def outputs(self, of_attempt: AttemptContext, *, is_stateful: bool = False, streaming: bool = False) -> Outputs:
        context, subtask, attempt = of_attempt.run, of_attempt.subtask, of_attempt.attempt
        vertex = context.graph.vertex(subtask.vertex)
        sinks = {uid: self._sinks[uid] for uid in vertex.sinks}
        operators = context.job.operators
        quarantines = {operators[uid].input_uids[0]: uid for uid in vertex.sinks if operators[uid].quarantine}
        return Outputs(
            context.spark,
            context.storage,
            attempt,
            sinks,
            self._target(subtask),
            f"{subtask_path(context.job_id, subtask.vertex, subtask.number)}/scratch",
            wait=of_attempt.wait,
            is_stateful=is_stateful,
            sources=SourceContent(context.spark, vertex.uid, streaming, self._choose) if vertex.sources else None,
            quarantines=quarantines,
        )


def bounded_input(end: FrozenEnd) -> BoundedInput | BoundedOffsets:
    if isinstance(end, FrozenOffsets):
        return BoundedOffsets(end.uid, end.remaining())
    shown = {unescaped_path(file): shown_path(file) for file in end.files}
    return BoundedInput(end.uid, set(end.normal), end.normal, shown=shown)
