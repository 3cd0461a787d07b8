"""Dry runs of queries that may replace the running one. A dry run builds, compares and runs a query invisibly (R21)."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from airflow_provider_ckpt.concurrency import DaemonThreads
from airflow_provider_ckpt.coordinator.protocol.reports import ReconfigurationPrepared, ReconfigurationUnfit, Report
from airflow_provider_ckpt.job.reconfigured import with_digests
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.ids import TaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.spark.app.jvm_state import is_gone
from airflow_provider_ckpt.spark.app.query_failure import describe_error
from airflow_provider_ckpt.spark.app.session_settings import settings_at_start
from airflow_provider_ckpt.spark.plan.builder import BuiltQuery, QueryBuilder
from airflow_provider_ckpt.spark.plan.replacement_query import check_fits
from airflow_provider_ckpt.spark.query.errors import UnfitQueryError
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.streaming.batch_function import BatchFunction
from airflow_provider_ckpt.spark.task.streaming.state_repartition import repartition_state
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.removal import best_effort

LAST_TRIAL = 10.0
"""Maximum seconds to wait for a dry run in progress. The user's function in it may never return."""

MakeBuilder = Callable[[VertexSettings | None], QueryBuilder]


@dataclass(frozen=True)
class DryRunQuery:
    """A query that passed a dry run. Its plan has these ``settings``, and leaves out the inputs ``without``."""

    settings: VertexSettings
    without: frozenset[str]
    builder: QueryBuilder
    built: BuiltQuery

    def is_of(self, plan: VertexPlan) -> bool:
        return (self.settings, self.without) == (plan.settings or VertexSettings(), plan.without)


class QueryDryRuns:
    """The dry runs of one attempt of a subtask. They run one after the other, in their own threads.

    Args:
        folder: the Spark folder of the running query.
        path: prefix of the paths of copies of ``folder``.
        reads_whole: True if each batch of a result partition is read as a whole, so that read limits have no effect.
    """

    def __init__(
        self, context: RunContext, vertex: JobVertex, folder: SparkFolder, path: str, *, reads_whole: bool
    ) -> None:
        self._context, self._vertex, self._folder, self._path = context, vertex, folder, path
        self._reads_whole = reads_whole
        self._threads = DaemonThreads()
        self._one_at_a_time = threading.Lock()
        self._query: StreamingQuery | None = None
        self._is_stopped = False
        self._tried: DryRunQuery | None = None

    def submit(
        self,
        task_id: TaskId,
        trial: str,
        plan: VertexPlan,
        current: BuiltQuery,
        settings: VertexSettings | None,
        make_builder: MakeBuilder,
        post: Callable[[Report], None],
    ) -> None:
        """Start a dry run of a plan's query, and return at once.

        Args:
            trial: the name of the dry run in its result.
            settings: the settings of the running query; None if requests have changed none.
            make_builder: returns the builder of a query with the given settings.
            post: called with the result, ReconfigurationPrepared or ReconfigurationUnfit.
        """

        def run() -> None:
            try:
                with self._turn():
                    digests = self._try(trial, plan, current, settings or VertexSettings(), make_builder)
            except BaseException as error:  # a user's file may raise anything, and only this thread would see it
                post(ReconfigurationUnfit(*task_id, trial, describe_error(error)))
            else:
                post(ReconfigurationPrepared(*task_id, trial, digests))

        if not self._is_stopped:
            # a daemon, because a dry run that hangs must not delay the next attempt or the end of the driver
            self._threads.start(f"ckpt-trial-{self._vertex.uid}", run)

    def take(self, plan: VertexPlan) -> DryRunQuery | None:
        """Return and forget the last dry run's query if it belongs to ``plan``; otherwise return None."""
        tried, self._tried = self._tried, None
        return tried if tried is not None and tried.is_of(plan) else None

    def stop(self) -> None:
        """Stop the current dry run, and start no other dry run, because the attempt is over."""
        self._is_stopped = True
        query = self._query
        if query is not None and not is_gone() and query.isActive:
            query.stop()

    def close(self) -> None:
        """Wait until no dry run is in progress, at most for :data:`LAST_TRIAL`."""
        self._is_stopped = True
        self._threads.join(LAST_TRIAL)

    def for_version(self, context: RunContext, vertex: JobVertex) -> QueryDryRuns:
        """Return dry runs for another version of the job, on copies of this query's folder."""
        return QueryDryRuns(context, vertex, self._folder, self._path, reads_whole=self._reads_whole)

    # ---- the threads

    def start_on_copy(self, trial: str, settings: VertexSettings, changed: BuiltQuery) -> None:
        """Run one batch without rows on a copy of the current state.

        The batch fails if the state does not fit the query. It also fails at an unfit option of a source, because Spark
        reads such an option only when a query starts. A query without a committed batch has no state to try.
        """
        copy = SparkFolder(self._folder.storage, f"{self._path}-{trial}")
        try:
            copy.copy_from(self._folder)
            copy.delete_planned()
            if copy.newest_commit() is None:
                return
            copy.set_query_id(str(uuid.uuid4()))
            repartition_state(self._context.spark, copy, settings.state_partitions)
            copy.plan_empty_batch()
            self._run(copy, settings, changed)
            self._check_parts(copy, settings.state_partitions)
        finally:
            with best_effort(copy.path):
                copy.storage.delete_tree(copy.path)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for the end of the previous dry run, at most for :data:`LAST_TRIAL`.

        Raises UnfitQueryError if the previous dry run does not end.
        """
        if not self._one_at_a_time.acquire(timeout=LAST_TRIAL):
            problem = "an earlier trial has not ended: try again, or stop the job and change its next run"
            raise UnfitQueryError(vertex=self._vertex.uid, problem=problem)
        try:
            yield
        finally:
            self._one_at_a_time.release()

    def _try(
        self, trial: str, plan: VertexPlan, current: BuiltQuery, previous: VertexSettings, make_builder: MakeBuilder
    ) -> Mapping[str, str]:
        """Do the dry run, and return operator → digest of its function. If the query is unfit, raise an error."""
        settings = with_digests(self._context.operators, plan.settings or VertexSettings(), self._context.logic)
        self._context.check_declared([uid for uid in previous.logic if uid not in settings.logic])
        builder = make_builder(settings)
        changed = builder.build(plan.without)
        is_read = bool(self._context.graph.outputs(self._vertex.uid))
        is_another = (settings.logic, settings.digests) != (previous.logic, previous.digests)
        check_fits(self._vertex.uid, current, changed, is_read=is_read, is_edited=is_another)
        # check only limits that change: the file source of an existing limit may have ended since
        if _limits(settings) != _limits(previous):
            self._check_limits(changed)
        if settings.state_partitions != previous.state_partitions:
            self._check_state(changed)
        if settings.executors is not None and settings.executors != previous.executors:
            self._check_executors()
        if is_another and changed.stateful:
            self._check_committed()
        if (is_another or changed.stateful) and not self._is_stopped:
            self.start_on_copy(trial, settings, changed)
        self._tried = DryRunQuery(settings, plan.without, builder, changed)
        return settings.digests

    def _check_limits(self, changed: BuiltQuery) -> None:
        edges = self._context.graph.inputs(self._vertex.uid)
        if any(reads.is_file for reads in changed.reads.values()) or (edges and not self._reads_whole):
            return
        problem = (
            "it reads batches of its producers as a whole, because the job uses event time: no limit holds for them"
            if edges
            else "it reads no files, and no limit of bytes or files holds for anything else"
        )
        raise UnfitQueryError(vertex=self._vertex.uid, problem=problem)

    def _check_executors(self) -> None:
        executors = self._context.executors
        problem = None if executors is None else executors.problem()
        if problem is not None:
            raise UnfitQueryError(vertex=self._vertex.uid, problem=problem)

    def _check_committed(self) -> None:
        """Refuse a changed function if the query has committed no batch, because a dry run needs state.

        Raises UnfitQueryError.
        """
        if self._folder.newest_commit() is None:
            problem = (
                "it has committed no micro-batch, so there is no state to try another function on; try again later"
            )
            raise UnfitQueryError(vertex=self._vertex.uid, problem=problem)

    def _check_state(self, changed: BuiltQuery) -> None:
        if not changed.stateful:
            raise UnfitQueryError(vertex=self._vertex.uid, problem="it keeps no state that could be repartitioned")
        if self._folder.state_partitions() is None:
            problem = "it has committed no micro-batch, so there is no state to repartition; try again later"
            raise UnfitQueryError(vertex=self._vertex.uid, problem=problem)

    def _check_parts(self, copy: SparkFolder, wanted: int | None) -> None:
        """Refuse a number of state partitions that an operator of the query does not use.

        Spark repartitions any state. An operator that uses only one partition would lose the state in all others, which
        it does not read.

        Raises UnfitQueryError.
        """
        if wanted is not None and not self._is_stopped and copy.state_partition_counts() != {wanted}:
            shown = " and ".join(map(str, sorted(copy.state_partition_counts())))
            problem = (
                f"Spark runs it on state in {shown} parts, not {wanted}: an operator without keys uses only one part"
            )
            raise UnfitQueryError(vertex=self._vertex.uid, problem=problem)

    def _run(self, folder: SparkFolder, settings: VertexSettings, changed: BuiltQuery) -> None:
        context = self._context
        with settings_at_start(context.spark, context.state_partitions_of(self._vertex.uid, settings)):
            query = (
                changed.frame.writeStream.queryName(f"{context.job_id}:{self._vertex.uid}:trial-{uuid.uuid4().hex[:8]}")
                .outputMode(changed.output_mode)
                .option("checkpointLocation", folder.location)
                .foreachBatch(BatchFunction(self._discard_rows))
                .trigger(once=True)
                .start()
            )
        self._query = query
        if self._is_stopped:
            query.stop()
        query.awaitTermination()
        self._query = None

    def _discard_rows(self, frame: DataFrame, batch_id: int) -> None:
        frame.write.format("noop").mode("overwrite").save()


def _limits(settings: VertexSettings) -> tuple[int | None, int | None]:
    return settings.max_bytes_per_batch, settings.max_files_per_batch
