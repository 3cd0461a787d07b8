"""Queries that may take the place of the one that runs: made, compared and tried, and nothing of it is seen
(R21)."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from airflow_provider_ckpt.coordinator.reports import ReconfigurationPrepared, ReconfigurationUnfit, Report
from airflow_provider_ckpt.job.reconfigured import read_anew
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.task_id import TaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.spark.query.builder import BuiltQuery, QueryBuilder
from airflow_provider_ckpt.spark.query.errors import UnfitQueryError
from airflow_provider_ckpt.spark.query.fitness import check_fits
from airflow_provider_ckpt.spark.task.batch_function import BatchFunction
from airflow_provider_ckpt.spark.task.causes import told
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.jvm import is_gone
from airflow_provider_ckpt.spark.task.session_settings import starting
from airflow_provider_ckpt.spark.task.state_cut import cut_anew
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.removal import best_effort

log = logging.getLogger(__name__)

LAST_TRIAL = 10.0
"""Seconds that a trial gets when its attempt is over, or the next one is to begin: the function it calls is a user's,
and may never return."""

MakeBuilder = Callable[[VertexSettings | None], QueryBuilder]


@dataclass(frozen=True)
class TriedQuery:
    """``settings``, ``without``: of the plan that it was made for."""

    settings: VertexSettings
    without: frozenset[str]
    builder: QueryBuilder
    built: BuiltQuery

    def is_of(self, plan: VertexPlan) -> bool:
        return (self.settings, self.without) == (plan.settings or VertexSettings(), plan.without)


class Trials:
    """Of one attempt of a subtask, one after the other, in threads of their own. ``folder``: of the query that runs;
    ``path``: where copies of it are made, each with its name behind. ``reads_whole``: no limit holds for the
    result partitions that it reads."""

    def __init__(
        self, context: RunContext, vertex: JobVertex, folder: SparkFolder, path: str, *, reads_whole: bool
    ) -> None:
        self._context, self._vertex, self._folder, self._path = context, vertex, folder, path
        self._reads_whole = reads_whole
        self._threads: list[threading.Thread] = []
        self._one_at_a_time = threading.Lock()
        self._query: StreamingQuery | None = None
        self._is_stopped = False
        self._tried: TriedQuery | None = None

    def submit(
        self,
        task_id: TaskId,
        trial: str,
        plan: VertexPlan,
        now: BuiltQuery,
        before: VertexSettings | None,
        make_builder: MakeBuilder,
        tell: Callable[[Report], None],
    ) -> None:
        """``now``, ``before``: what runs, and with which settings. Answers ReconfigurationPrepared or
        ReconfigurationUnfit by ``tell``. Returns at once."""

        def run() -> None:
            try:
                with self._turn():
                    digests = self._try(trial, plan, now, before or VertexSettings(), make_builder)
            except BaseException as error:  # a file may raise KeyboardInterrupt, and this thread is nobody else's
                tell(ReconfigurationUnfit(*task_id, trial, told(error)))
            else:
                tell(ReconfigurationPrepared(*task_id, trial, digests))

        if not self._is_stopped:
            # a daemon: one that hangs keeps neither the next attempt nor the driver from their end
            thread = threading.Thread(target=run, name=f"ckpt-trial-{self._vertex.uid}", daemon=True)
            self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
            thread.start()

    def take(self, plan: VertexPlan) -> TriedQuery | None:
        """The query that was tried last, if it is that of the plan: it can be started as it is, and its functions need
        not be called again while the subtask stands still. Once."""
        tried, self._tried = self._tried, None
        return tried if tried is not None and tried.is_of(plan) else None

    def stop(self) -> None:
        """The attempt is over."""
        self._is_stopped = True
        query = self._query
        if query is not None and not is_gone() and query.isActive:
            query.stop()

    def close(self) -> None:
        """Returns when nothing is tried any more, or :data:`LAST_TRIAL` is over."""
        self._is_stopped = True
        until = time.monotonic() + LAST_TRIAL
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                log.warning("%s has not ended within %g s, and is left behind", thread.name, LAST_TRIAL)

    def of(self, context: RunContext, vertex: JobVertex) -> Trials:
        """Those of another version of the job, on what this one has."""
        return Trials(context, vertex, self._folder, self._path, reads_whole=self._reads_whole)

    # ---- the threads

    def start_on_copy(self, trial: str, settings: VertexSettings, other: BuiltQuery) -> None:
        """State that does not fit shows in the first batch: one without rows, on a copy of the state of now. So does an
        option of a source that Spark reads when the query is started."""
        copy = SparkFolder(self._folder.storage, f"{self._path}-{trial}")
        try:
            copy.copy_from(self._folder)
            copy.forget_planned()
            if copy.newest_commit() is None:
                return
            copy.call(str(uuid.uuid4()))
            cut_anew(self._context.spark, copy, settings.state_partitions)
            copy.plan_empty_batch()
            self._run(copy, settings, other)
            self._check_parts(copy, settings.state_partitions)
        finally:
            with best_effort(copy.path):
                copy.storage.delete_tree(copy.path)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """A function that never returns would have whatever is asked for behind it blamed for taking too long."""
        if not self._one_at_a_time.acquire(timeout=LAST_TRIAL):
            problem = "what was tried before has not returned yet: ask again, or stop the job and ask its next run"
            raise UnfitQueryError(vertex=self._vertex.uid, problem=problem)
        try:
            yield
        finally:
            self._one_at_a_time.release()

    def _try(
        self, trial: str, plan: VertexPlan, now: BuiltQuery, before: VertexSettings, make_builder: MakeBuilder
    ) -> Mapping[str, str]:
        """Returns the digests of its functions. Raises whatever speaks against it."""
        settings = read_anew(self._context.operators, plan.settings or VertexSettings(), self._context.logic)
        self._context.check_declared([uid for uid in before.logic if uid not in settings.logic])
        builder = make_builder(settings)
        other = builder.build(plan.without)
        is_read = bool(self._context.graph.outputs(self._vertex.uid))
        is_another = (settings.logic, settings.digests) != (before.logic, before.digests)
        check_fits(self._vertex.uid, now, other, is_read=is_read, is_edited=is_another)
        # what it has by now is not asked for: the file source that a limit was given for may have ended since
        if _limits(settings) != _limits(before):
            self._check_limits(other)
        if settings.state_partitions != before.state_partitions:
            self._check_state(other)
        if settings.executors is not None and settings.executors != before.executors:
            self._check_executors()
        if is_another and other.stateful:
            self._check_committed()
        if (is_another or other.stateful) and not self._is_stopped:
            self.start_on_copy(trial, settings, other)
        self._tried = TriedQuery(settings, plan.without, builder, other)
        return settings.digests

    def _check_limits(self, other: BuiltQuery) -> None:
        edges = self._context.graph.inputs(self._vertex.uid)
        if any(reads.is_file for reads in other.reads.values()) or (edges and not self._reads_whole):
            return
        problem = (
            "what its producers give is read as a whole, as the job follows event time: no limit holds for it"
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
        """Before that there is nothing to try it on: what Spark refuses when a query starts would end the job."""
        if self._folder.newest_commit() is None:
            problem = "no micro-batch of it is committed yet, so there is nothing to try another function on; ask again"
            raise UnfitQueryError(vertex=self._vertex.uid, problem=problem)

    def _check_state(self, other: BuiltQuery) -> None:
        if not other.stateful:
            raise UnfitQueryError(vertex=self._vertex.uid, problem="it keeps no state that could be cut anew")
        if self._folder.state_partitions() is None:
            problem = "no micro-batch of it is committed yet, so there is no state to cut anew; ask again"
            raise UnfitQueryError(vertex=self._vertex.uid, problem=problem)

    def _check_parts(self, copy: SparkFolder, wanted: int | None) -> None:
        """Spark cuts whatever it is told to, and what an operator that keeps one part does not find there is lost."""
        if wanted is not None and not self._is_stopped and copy.parts_of_state() != {wanted}:
            shown = " and ".join(map(str, sorted(copy.parts_of_state())))
            problem = (
                f"Spark runs it on state in {shown} parts, not {wanted}: an operator without keys has one part alone"
            )
            raise UnfitQueryError(vertex=self._vertex.uid, problem=problem)

    def _run(self, folder: SparkFolder, settings: VertexSettings, other: BuiltQuery) -> None:
        context = self._context
        with starting(context.spark, context.state_partitions_of(self._vertex.uid, settings)):
            query = (
                other.frame.writeStream.queryName(f"{context.job_id}:{self._vertex.uid}:trial-{uuid.uuid4().hex[:8]}")
                .outputMode(other.output_mode)
                .option("checkpointLocation", folder.location)
                .foreachBatch(BatchFunction(self._read_and_forget))
                .trigger(once=True)
                .start()
            )
        self._query = query
        if self._is_stopped:
            query.stop()
        query.awaitTermination()
        self._query = None

    def _read_and_forget(self, frame: DataFrame, batch_id: int) -> None:
        frame.write.format("noop").mode("overwrite").save()


def _limits(settings: VertexSettings) -> tuple[int | None, int | None]:
    return settings.max_bytes_per_batch, settings.max_files_per_batch
