"""The runner of one vertex in STREAMING mode: the life of its Spark query, from its start to the end of data.

The TaskMachine decides the next step, and this runner carries it out. These threads call the runner:

* the driver's loop: ``deploy``, ``trigger``, ``pull_inputs``, ``pause``, ``resume``, ``drain``, ``finish``, ``stop``;
* Spark's callback threads: ``on_progress``, and the query's ``foreach_batch``;
* one thread of its own for long work: building, stopping at a boundary, restarting and ending a query.

:class:`RunningQuery` holds the query, :class:`QueryBoundary` stops it, and :class:`MicroBatches` writes its
micro-batches to the log.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

from airflow_provider_ckpt.coordinator.protocol.reports import (
    BatchPublished,
    FilesChanged,
    InputLeftUnread,
    QueryMeasured,
    ReadingBegun,
    ReconfigurationUnfit,
    SourceAtEnd,
    SourceLogGrown,
)
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.spark.plan.builder import BuiltQuery, QueryBuilder
from airflow_provider_ckpt.spark.plan.query_state import kept_state
from airflow_provider_ckpt.spark.query.analysed_plan import leaf_ids, streams_in_order, watermark_over
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.streaming.idle_sources import QUIET, IdleSources
from airflow_provider_ckpt.spark.task.streaming.input_rows import InputRows
from airflow_provider_ckpt.spark.task.streaming.micro_batches import MicroBatches
from airflow_provider_ckpt.spark.task.streaming.query_boundary import QueryBoundary
from airflow_provider_ckpt.spark.task.streaming.query_dry_run import QueryDryRuns
from airflow_provider_ckpt.spark.task.streaming.query_progress import SparkProgress
from airflow_provider_ckpt.spark.task.streaming.running_query import RunningQuery
from airflow_provider_ckpt.spark.task.streaming.source_watch import FileWatch, SourceWatch, unread_input
from airflow_provider_ckpt.subtasklog.records import EndMode
from airflow_provider_ckpt.task.actions import (
    Action,
    AnnounceEnd,
    BuildQuery,
    EndData,
    EndPartition,
    PauseQuery,
    PostReport,
    ReadAvailable,
    RunQuery,
)
from airflow_provider_ckpt.task.machine import ReadProgress, TaskMachine
from airflow_provider_ckpt.task.phase import TaskPhase
from airflow_provider_ckpt.task.vertex_inputs import EdgeInput

log = logging.getLogger(__name__)

LEAST_SET_BACK = 1.0
"""Minimum seconds by which a clock must be set back for a restart. Less delays a micro-batch only by that time."""


class WallClock:
    """A check whether the wall clock was set back, because Spark's trigger would begin no micro-batch for that time."""

    def __init__(self, wall: Callable[[], float] | None = None, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall or (lambda: time.time()), steady
        self._ahead = self._now()

    def set_back(self) -> float:
        """Return the seconds by which the clock was set back since the previous call; negative after a forward step."""
        previous, self._ahead = self._ahead, self._now()
        return previous - self._ahead

    def _now(self) -> float:
        return self._wall() - self._steady()


class StreamingRunner:
    """The runner of one attempt of one subtask in STREAMING mode. It carries out the TaskMachine's actions.

    Args:
        make_builder: returns the builder of the query with the given settings.
        forget_earlier: deletes Spark folders of earlier attempts; None to delete none. Called after the first published
            batch, because a person may need the folders if Spark refuses the query or its schema.
        add_channels: adds inputs that the plan has and the attempt lacks. Called with the lock held before a query is
            built.
        idle_timeouts: source → its ``idle_timeout``; see :class:`IdleSources`.
    """

    def __init__(
        self,
        context: RunContext,
        batches: MicroBatches,
        make_builder: Callable[[VertexSettings | None], QueryBuilder],
        trials: QueryDryRuns,
        forget_earlier: Callable[[], None] | None = None,
        add_channels: Callable[[VertexPlan], None] = lambda plan: None,
        idle_timeouts: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.vertex, self.subtask, self.attempt = batches.vertex, batches.subtask, batches.attempt
        self._batches = batches
        self._context, self._make_builder, self._trials = context, make_builder, trials
        self._builder: QueryBuilder | None = None
        self._settings: VertexSettings | None = None
        self._log, self._folder, self._inputs = batches.log, batches.folder, batches.inputs
        self._lock, self._publication = batches.lock, batches.publication
        self._machine = TaskMachine(self._publication.task_id, self._inputs.names)
        self._forget_earlier, self._add_channels = forget_earlier, add_channels
        batches.after_publish = self._published
        self._query = RunningQuery(context, batches)
        self._idle = IdleSources(idle_timeouts, self._query.raise_watermark)
        self._query.on_batch = self._advance_watermark
        self._with_event_time: frozenset[str] = frozenset()
        self._boundary = QueryBoundary(self._query, self._folder, self._rebuild)
        self._built: BuiltQuery | None = None
        self._sources = SourceWatch(context, self.vertex, self._inputs)
        self._files = FileWatch(context, batches, lambda: self._query.is_stopped)
        self._reads: dict[str, SourceReads] = {}
        """Source → what it reads, for all queries of this attempt, because files of ended sources are also compared."""
        self._compares_files = False
        self._wall = WallClock()
        self._reported_published: bool | None = None
        """The value of the last ReadingBegun report; None before the first report."""
        self._input_rows = InputRows(context)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ckpt-{self.vertex.uid}")

    @property
    def query_id(self) -> str | None:
        return self._query.id

    # ---- for dry runs of another version of the job; any thread

    @property
    def edges(self) -> Mapping[str, EdgeInput]:
        """Channel → its input from another vertex."""
        return self._inputs.edges

    @property
    def plan(self) -> VertexPlan:
        with self._lock:
            return self._publication.plan

    def trials_of(self, context: RunContext, vertex: JobVertex) -> QueryDryRuns:
        """Return dry runs of queries that resume from the state of this query."""
        return self._trials.for_version(context, vertex)

    # ---- the driver's loop: commands

    def deploy(self, plan: VertexPlan) -> None:
        """Start the query, or end the data at once if there is nothing to read."""
        self._submit(functools.partial(self._deploy, plan))

    def trigger(self, checkpoint: int) -> None:
        self._publication.trigger(checkpoint)

    def pause(self, reason: PauseReason) -> None:
        with self._lock:
            self._carry_out(self._machine.pause(reason))

    def resume(self, plan: VertexPlan) -> None:
        with self._lock:
            self._carry_out(self._machine.resume(plan))

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        raise AssertionError(f"{self.subtask}: a query is handed no splits")

    def prepare(self, trial: str, plan: VertexPlan) -> None:
        """Try the query of another plan in a separate thread, while the current query continues."""
        with self._lock:
            current, settings, task_id = self._built, self._publication.plan.settings, self._publication.task_id
        if current is None:
            self._publication.post(ReconfigurationUnfit(*task_id, trial, "it has not started yet"))
            return
        self._trials.submit(task_id, trial, plan, current, settings, self._make_builder, self._publication.post)

    def drain(self, *, at_once: bool = False) -> None:
        with self._lock:
            self._carry_out(self._machine.drain(self._seen(), at_once=at_once))

    def finish(self) -> None:
        with self._lock:
            self._carry_out(self._machine.finish())
        self.close()

    # ---- the driver's loop: the rest

    def pull_inputs(self) -> None:
        """Read new entries of the producers' logs. Take a snapshot at a barrier, and feed readable batches."""
        if not self._inputs.edges:
            return
        with self._lock:
            self._publication.act_on_inputs()
            self._advance()

    def wait_for_batch(self, until: float) -> None:
        """Wait until no batch of the query runs, at most until ``until`` (of ``time.monotonic``)."""
        self._query.wait_for_batch(until)

    def stop(self) -> None:
        """Stop the query at once. An unpublished batch runs again in the next attempt."""
        self._query.stop()
        self._trials.stop()

    def close(self) -> None:
        """Wait until the runner's threads have ended."""
        self._trials.close()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def check(self) -> None:
        """Check the query, its sources and its files. Raise the error of a query that has ended by itself.

        The driver's loop calls this repeatedly. It also publishes a committed batch whose event was lost, because a
        full queue of Spark drops events.
        """
        if not self._query.is_stopped:
            self._batches.finish_committed()
        self._check_sources(time.monotonic())
        self._check_files(time.monotonic())
        self._check_clock()
        if self._query.stop_to_restart_batch():
            self._submit(self._restart_batch)
        self._check_idle_sources()
        ended = self._query.ended()
        if ended is None:
            return
        if ended.exception() is None and self._ends_by_itself:
            self._query.ran_out()
            with self._lock:
                self._carry_out(self._machine.query_ended())
            return
        raise self._query.failure(ended)

    def _check_clock(self) -> None:
        """Restart the query if the machine's clock was set back, because Spark would wait for the old time."""
        back = self._wall.set_back()
        if self._trigger_interval and not self._ends_by_itself and back > max(self._trigger_interval, LEAST_SET_BACK):
            self._submit(functools.partial(self._restart_query, back))

    def _check_idle_sources(self) -> None:
        if not self._idle.timeouts or self._machine.phase is not TaskPhase.RUNNING or not self._query.is_waiting:
            return
        seen = time.time() - self._trigger_interval - QUIET
        watermark = self._idle.overdue(self._publication.times, seen)
        if watermark is not None:
            self._idle.was_raised(watermark)
            self._submit(functools.partial(self._raise_watermark, watermark, seen))

    def _advance_watermark(self, batch_id: int) -> None:
        """Raise the watermark for idle sources. Spark's thread calls this in each batch."""
        if self._idle.timeouts and self._machine.phase is TaskPhase.RUNNING:
            self._idle.advance_watermark(self._batches.times(), self._folder.planned_at(batch_id))

    def _check_sources(self, now: float) -> None:
        built = self._built
        if built is None or self._machine.phase not in (TaskPhase.WAITING, TaskPhase.RUNNING):
            return
        for source, reads in self._sources.stuck(built, now):
            self._submit(functools.partial(self._sources.refuse, source, reads))

    def _check_files(self, now: float) -> None:
        if not self._compares_files and self._machine.phase is TaskPhase.RUNNING and self._files.is_due(now):
            self._compares_files = True
            self._submit(self._compare_due_files)

    def changed_files(self) -> list[FilesChanged]:
        """Return reports of files that have changed since they were read. Call this after the end of the run."""
        return self._files.changes(self._reads)

    def late_files(self) -> set[str]:
        """Return normal paths of files that bounded sources read although the frozen lists do not name them."""
        return {path for source in self._inputs.bounded_files.values() for path in source.late}

    # ---- Spark's callback threads

    def on_progress(self) -> None:
        """Publish the committed batch, unless the run has ended. The next attempt then publishes the batch."""
        if not self._query.is_stopped:
            self._guard(self._batches.finish_committed)

    def on_idle(self) -> None:
        """Report that the query has nothing to read, unless it has published a batch or reported this before."""
        if not self._query.is_stopped:
            self._report_begun(published=False)

    def measured(self, progress: SparkProgress | None) -> None:
        """Report measurements of a micro-batch, after :meth:`on_progress`. ``progress``: None for an idle query."""
        if self._query.is_stopped:
            return
        if progress is not None:
            self._input_rows.add(progress.sources)
        if self._input_rows.is_due(time.monotonic(), is_idle=progress is None):
            self._report_measured(progress)

    def _report_measured(self, progress: SparkProgress | None) -> None:
        measured = None
        with self._lock:
            behind = self._inputs.unread_count()
            inputs = self._input_rows.progress(self._inputs.bounded)
        if progress is not None:
            files, size = self._batches.input_of_batch(progress.batch_id)
            measured = progress.with_input(self._trigger_interval, files, size, behind)
        self._publication.post(QueryMeasured(*self._publication.task_id, measured, inputs))

    # ---- from facts to actions; the lock is held

    def _published(self) -> None:
        forget, self._forget_earlier = self._forget_earlier, None
        if forget is not None:
            self._submit(forget)
        self._report_begun(published=True)
        if self._wants_early_checkpoint:
            self._publication.post(BatchPublished(*self._publication.task_id))
        if self._inputs.has_grown():
            self._publication.post(SourceLogGrown(*self._publication.task_id))
        self._advance()

    def _report_begun(self, *, published: bool) -> None:
        is_news = self._reported_published is None or (published and not self._reported_published)
        if self._context.in_master_process and is_news:
            self._reported_published = published
            self._context.post(ReadingBegun(*self._publication.task_id, published))

    @property
    def _wants_early_checkpoint(self) -> bool:
        """True if published batches bring the next checkpoint forward, so that rows of a live source are released soon.

        False for a query that reads result partitions, because the producers' logs bring the barriers.
        """
        is_live = set(self.vertex.sources) - set(self.vertex.bounded_sources)
        return bool(self._context.in_master_process and is_live and not self._inputs.edges)

    def _advance(self) -> None:
        self._carry_out(self._machine.advance(self._seen()))

    def _seen(self) -> ReadProgress:
        return ReadProgress(self._inputs.ended(), self._edges_ended(), self._publication.last_batch())

    def _edges_ended(self) -> bool:
        """Return True if all inputs from other vertices have ended and were fed, so ``availableNow`` reads all rows."""
        without = self._publication.plan.without
        return all(edge.ended for edge in self._inputs.edges.values() if edge.edge.uid not in without)

    @property
    def _runs_out(self) -> bool:
        """True if the vertex reads a bounded source without a frozen end. Then the query runs with ``availableNow``."""
        return bool(set(self.vertex.bounded_sources) - set(self._inputs.bounded) - self._publication.plan.without)

    @property
    def _ends_by_itself(self) -> bool:
        return self._runs_out or self._machine.reads_available

    def _carry_out(self, actions: Iterable[Action]) -> None:
        """Carry out the actions in order. Long actions run in the runner's own thread."""
        for action in actions:
            match action:
                case BuildQuery(plan):
                    self._submit(functools.partial(self._build, plan))
                case RunQuery():
                    self._submit(self._run)
                case PauseQuery():
                    self._submit(self._pause)
                case ReadAvailable():
                    self._submit(self._restart_query)
                case EndData(mode):
                    self._submit(functools.partial(self._end, mode))
                case EndPartition():
                    self._publication.end_of_partition()
                    self._carry_out(self._machine.partition_ended())
                case AnnounceEnd(uid, batch_id):
                    self._submit(functools.partial(self._compare_files_of, uid))
                    droppable = self._current_builder().can_drop(uid, self._publication.plan.without)
                    self._publication.post(SourceAtEnd(*self._publication.task_id, uid, batch_id, droppable))
                case PostReport(report):
                    self._publication.post(report)

    # ---- the runner's own thread

    def _deploy(self, plan: VertexPlan) -> None:
        end_of_data = self._log.state.end_of_data
        planned = end_of_data is None and self._folder.is_final()
        with self._lock:
            self._carry_out(self._machine.deploy(plan, end_of_data, final_batch_planned=planned))

    def _build(self, plan: VertexPlan) -> None:
        with self._lock:
            self._publication.plan = plan
            self._add_channels(plan)
        tried = self._trials.take(plan)
        if tried is not None:
            self._builder, self._settings, built = tried.builder, plan.settings, tried.built
        else:
            if plan.settings != self._settings:
                self._builder = None
            built = self._current_builder().build(plan.without)
        self._sources.refuse_recreated_topics(built)
        self._with_event_time = self._followed_inputs(built) if self._idle.timeouts else frozenset()
        with self._lock:
            self._built, self._reads = built, {**self._reads, **built.reads}
            reads = {*built.reads, *self._inputs.edge_sources}
            self._carry_out(self._machine.planned(reads, ends_by_itself=self._runs_out, progress=self._seen()))

    def _followed_inputs(self, built: BuiltQuery) -> frozenset[str]:
        """Return the inputs whose watermarks the query uses; empty if the query reads a bounded input."""
        without = self._publication.plan.without
        edges = [edge for edge in self._context.graph.inputs(self.vertex.uid) if edge.uid not in without]
        ends = set(self.vertex.bounded_sources) - without
        if ends or any(self._context.graph.vertex(edge.producer).bounded for edge in edges):
            return frozenset()  # the bounded input holds back event time
        inputs = self._current_builder().inputs
        return frozenset(uid for uid, frame in inputs.items() if watermark_over(built.frame, leaf_ids(frame)))

    def _run(self) -> None:
        self._begin()
        with self._lock:
            self._carry_out(self._machine.started(self._seen()))

    def _begin(self) -> None:
        assert self._built is not None
        self._idle.begin(self._with_event_time)
        self._input_rows.begin(streams_in_order(self._built.frame))
        interval = f"{int(self._trigger_interval * 1000)} milliseconds"
        self._query.run(self._built, {"availableNow": True} if self._ends_by_itself else {"processingTime": interval})

    def _restart_query(self, back: float = 0.0) -> None:
        """Restart the query at a boundary. ``back``: seconds by which the clock was set back; 0 for another reason."""
        with self._lock:
            if self._machine.phase is not TaskPhase.RUNNING:  # a paused query starts again when it resumes
                return
        if back:
            log.warning("the machine's clock was set back by %.0f s: the query of %s is restarted", back, self.subtask)
        self._query.state_rows()  # keep the number, because the next query has none before its first batch
        self._boundary.stop_query()
        self._begin()

    def _raise_watermark(self, watermark: int, seen: float) -> None:
        """Give the query a higher watermark, in epoch milliseconds, while no micro-batch comes.

        ``seen``: time at which Spark had last listed the input, in epoch seconds.
        """
        with self._lock:
            if self._machine.phase is not TaskPhase.RUNNING:
                return
        if self._query.has_watermark(watermark):
            return
        self._query.state_rows()  # keep the number, because the next query has none before its first batch
        self._boundary.stop_query()
        current = self._idle.watermark(self._publication.times, seen)  # a batch may have come meanwhile
        if current is not None:
            self._boundary.run_at(current)
        self._begin()
        self._idle.was_raised(current or 0)

    def _restart_batch(self) -> None:
        with self._lock:
            if self._machine.phase is not TaskPhase.RUNNING:  # a pause runs the planned batch itself
                return
        if not self._query.is_active:  # a drain may have restarted it already
            self._begin()

    def _pause(self) -> None:
        self._boundary.stop_query()
        commit = self._folder.newest_commit()
        with self._lock:
            self._carry_out(self._machine.paused_at(-1 if commit is None else commit))

    def _end(self, mode: EndMode) -> None:
        """End the data: stop reading, fire the windows, and append the end to the log (R11)."""
        if self._built is None:
            self._built = self._rebuild()
            self._reads = {**self._reads, **self._built.reads}
        self._boundary.end(mode, self._built)
        self._report_lost_input(mode, self._built)
        if self._input_rows.is_wanted:
            self._report_measured(None)
        with self._lock:
            self._publication.end_of_data(mode)
            self._carry_out(self._machine.data_ended())

    def _report_lost_input(self, mode: EndMode, built: BuiltQuery) -> None:
        """Report changed files, unread input, and state that the end discards. Raises UnfitInputError."""
        self._files.compare_all(self._reads, wait=True)
        if mode == "drain":
            self._report_unread()
        self._report_timers(built)

    def _report_unread(self) -> None:
        last_batch, live = self._log.state.last_batch, set(self.vertex.sources) - set(self.vertex.bounded_sources)
        for uid in sorted(live & self._reads.keys()):
            offset = None if last_batch is None else last_batch.offsets.get(uid)
            unread = unread_input(self._context.spark, self._folder, uid, self._reads[uid], offset)
            if unread is not None:
                self._report_lost(f"the drain has ended source {uid}, and left {unread}")

    def _report_timers(self, built: BuiltQuery) -> None:
        """Report state that waits for processing time, because the end discards it."""
        rows = self._query.state_rows() if built.stateful else 0
        if rows and any(state.has_timers for state in kept_state(built.frame)):
            self._report_lost(
                f"the end of {self.subtask} discards {counted(rows, 'row')} of state that waited for processing time"
            )

    def _report_lost(self, message: str) -> None:
        self._publication.post(InputLeftUnread(*self._publication.task_id, message))

    def _compare_due_files(self) -> None:
        self._compares_files = False
        self._files.compare_due(self._reads)

    def _compare_files_of(self, uid: str) -> None:
        if uid in self._reads:
            self._files.compare_all({uid: self._reads[uid]}, wait=False)

    @property
    def _trigger_interval(self) -> float:
        settings = self._publication.plan.settings
        chosen = None if settings is None else settings.trigger_interval
        return self._context.options.trigger_interval if chosen is None else chosen

    def _current_builder(self) -> QueryBuilder:
        """Return the builder for the current plan. An attempt that ends at once has none before this call."""
        if self._builder is None:
            settings = self._publication.plan.settings
            self._builder, self._settings = self._make_builder(settings), settings
        return self._builder

    def _rebuild(self, hold: bool = True) -> BuiltQuery:
        """Build the query of the current plan again. ``hold``: True if bounded inputs hold back event time."""
        return self._current_builder().build(self._publication.plan.without, hold=hold)

    def _submit(self, work: Callable[[], None]) -> None:
        self._thread.submit(self._guard, work)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            report_crash(self._context, self.subtask, self.attempt, self._query.cause(error))
