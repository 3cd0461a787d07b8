"""The Spark query of one runner: its start, its batches, and its stop at a micro-batch boundary."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from airflow_provider_ckpt.errors import CkptError, OvertakenError
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.spark.app.jvm_state import is_gone
from airflow_provider_ckpt.spark.app.known_warnings import INTERRUPTED
from airflow_provider_ckpt.spark.app.query_failure import Cause, find_cause
from airflow_provider_ckpt.spark.app.session_settings import settings_at_start
from airflow_provider_ckpt.spark.plan.builder import BuiltQuery
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.errors import FilesSettledError, QueryFailedError
from airflow_provider_ckpt.spark.task.scheduler_pool import add_pool
from airflow_provider_ckpt.spark.task.streaming.batch_function import BatchFunction
from airflow_provider_ckpt.spark.task.streaming.micro_batches import MicroBatches
from airflow_provider_ckpt.spark.task.terminal_errors import terminal_error

_STOPPED_WITHIN = 10.0
"""Maximum seconds that a batch of an overtaken driver waits for the driver's loop to stop the query."""
_POLL = 0.02


class QueryEnd:
    """The end of the current query of an attempt: whether this package ended it, and the error that a batch raised.

    These threads set the facts, and all threads read them:

    * the runner's own thread, which starts and stops queries: ``begin``, ``must_run``, ``expect``, ``interrupt``;
    * the driver's loop, for a query that has read all of its input: ``expect``;
    * the driver's loop or the thread of a restart, at the end of the run: ``end_run``;
    * Spark's thread, for an error of a batch: ``batch_failed``.

    No lock is needed, because each fact is one assignment and ``begin`` resets two of them while no query runs. The end
    of the run is never reset, because it may be set while the next query starts.
    """

    def __init__(self) -> None:
        self._run_over = False
        self._expected = True
        self._interrupted = False
        self._failure: BaseException | None = None

    # -- facts that are set

    def begin(self) -> None:
        """Reset the failure and the interruption before a query starts. An end of the query is still no failure."""
        self._failure = None
        self._interrupted = False

    def must_run(self) -> None:
        """Record that the query must run until this package stops it. Any other end of the query is a failure."""
        self._expected = False

    def expect(self) -> None:
        """Record that an end of the query is no failure. Call this before the query stops."""
        self._expected = True

    def interrupt(self) -> None:
        """Record that this package is about to stop the query. An error of a batch is then an interruption."""
        self._interrupted = True

    def end_run(self) -> None:
        """Record that the run is over. The current query, and any query that is starting, is expected to end."""
        self._run_over = True

    def batch_failed(self, error: BaseException) -> None:
        """Record the error that ``foreachBatch`` raised, because Spark reports it only in a wrapper."""
        self._failure = error

    # -- facts that are read

    @property
    def is_run_over(self) -> bool:
        return self._run_over

    @property
    def is_expected(self) -> bool:
        """True if an end of the query is no failure."""
        return self._expected or self._run_over

    @property
    def is_interrupted(self) -> bool:
        """True if an error of a batch is an interruption."""
        return self._interrupted or self._run_over

    @property
    def failure(self) -> BaseException | None:
        return self._failure


def query_failed(vertex: str, error: BaseException, files: Sequence[str] = ()) -> BaseException:
    """Return an error whose message begins with the cause. The original error is its ``__cause__``.

    Args:
        error: the error of the query. An error of this package is returned unchanged.
        files: normal paths of the files that the batch reads.
    """
    if isinstance(error, CkptError):
        return error
    failed = terminal_error(vertex, error, files) or _passing_error(vertex, find_cause(error))
    failed.__cause__ = error
    return failed


def _passing_error(vertex: str, cause: Cause) -> QueryFailedError:
    if cause.file is not None:
        return QueryFailedError(
            "the query of vertex {vertex!r} cannot read {file}: {cause}. Nothing of the batch was released. Another "
            "try reads the file again. If it is damaged or incomplete, put the right file under its name",
            vertex=vertex,
            file=cause.file,
            cause=cause.message,
        )
    return QueryFailedError(vertex=vertex, cause=cause.message)


def _copied(error: CkptError) -> CkptError:
    copied = copy.copy(error).with_traceback(error.__traceback__)
    copied.__cause__, copied.__context__ = error.__cause__, error.__context__
    copied.__suppress_context__ = error.__suppress_context__
    return copied


class RunningQuery:
    """The queries of an attempt, at most one at a time. All use the Spark folder of the attempt's micro-batches.

    The runner's own thread starts queries, and stops them at a boundary: ``run``, ``stop_after_batch``,
    ``run_planned``. The driver's loop polls them: ``wait_for_batch``, ``ended``, ``ran_out``, ``failure``. That loop or
    the thread of a restart stops them permanently: ``stop``. Spark calls ``foreach_batch`` in a thread of its own. Any
    thread may call ``cause`` and ``is_stopped``.

    ``id`` is Spark's id of the last query; None before the first one starts.
    """

    def __init__(self, context: RunContext, batches: MicroBatches) -> None:
        self.id: str | None = None
        self._context, self._batches = context, batches
        self._end = QueryEnd()
        self._query: StreamingQuery | None = None
        self._state_rows = 0
        self._awaits_restart = False
        """True if a batch waits for a restart of the query, because the batch's files have become complete."""
        self._only_final = False
        """True if only the last batch of the running query is published."""
        self.on_batch: Callable[[int], None] = lambda batch_id: None
        """Called with the number of each batch when it is staged, before Spark commits it."""
        self._failed: tuple[StreamingQuery | None, BaseException | None] = None, None
        """(the previous query, its error) if one of its batches failed; otherwise (None, None).

        The driver's loop may still need the error.
        """

    @property
    def is_stopped(self) -> bool:
        """True if the run is over, so that no query starts again."""
        return self._end.is_run_over

    def run(self, built: BuiltQuery, trigger: Mapping[str, Any]) -> None:
        self._launch(built, trigger)
        self._end.must_run()

    def foreach_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Publish the previous batch and stage this batch, in Spark's thread. An overtaken driver does neither (R8)."""
        try:
            self._batches.check_fenced()
            self._batches.finish_committed()
            self._batches.stage(frame, batch_id, lambda: self._end.is_interrupted, only_final=self._only_final)
            self.on_batch(batch_id)
        except FilesSettledError:
            self._awaits_restart = True
            self._sleep_until_stopped()
            raise RuntimeError(f"{INTERRUPTED}: files of the batch have become complete") from None
        except BaseException as error:
            self._end.batch_failed(error)
            if isinstance(error, OvertakenError):
                self._await_stop(error)
            if self._end.is_interrupted:
                # keep the message short, because Spark overflows its stack on a long one
                raise RuntimeError(f"{INTERRUPTED}: the query was stopped in a batch") from None
            raise

    def _await_stop(self, error: OvertakenError) -> None:
        """Report the error, and wait until the query is stopped, so that Spark logs no stack traces of the error."""
        report_crash(self._context, self._batches.subtask, self._batches.attempt, error)
        self._sleep_until_stopped()

    def _sleep_until_stopped(self) -> None:
        until = time.monotonic() + _STOPPED_WITHIN
        while not self._end.is_interrupted and time.monotonic() < until:
            time.sleep(_POLL)

    def wait_for_batch(self, until: float) -> None:
        """Wait until no batch runs and the previous batch is published, or until ``until`` (of ``time.monotonic``).

        This may raise the errors of publishing. Then the next attempt publishes the batch.
        """
        query, batches = self._query, self._batches
        if query is None:
            return
        with batches.lock:
            last_batch = batches.log.state.last_batch
            while time.monotonic() < until and query.isActive and query.status["isTriggerActive"]:
                if batches.log.state.last_batch is not last_batch:
                    return
                batches.published.wait(_POLL)
            batches.finish_committed()  # the event of the commit comes after the end of the trigger

    def stop(self) -> None:
        """Stop the query at once. An unpublished batch runs again in the next attempt."""
        self._end.end_run()  # before the query is read, because a thread that starts a query checks this afterwards
        query = self._query
        if query is not None and not is_gone() and query.isActive:
            query.stop()

    def raise_watermark(self, watermark: int) -> bool:
        """Plan the next micro-batch with this watermark, in epoch milliseconds, if the current one is lower.

        Call this within a batch. After the batch, Spark's loop sets the watermark of the next one, and refuses any
        other watermark for it. Return False if the query is still starting.
        """
        tracker = self._tracker()
        if tracker is None:
            return False
        if tracker.currentWatermark() < watermark:
            tracker.setWatermark(watermark)
        return True

    @property
    def is_waiting(self) -> bool:
        """True if the query waits for data or for its next trigger, and all of its batches are published."""
        query = self._query
        if query is None or not query.isActive or self._batches.is_pending:
            return False
        return not query.status["isTriggerActive"]

    def has_watermark(self, watermark: int) -> bool:
        """Return True if the query has at least this watermark, in epoch milliseconds."""
        tracker = self._tracker()
        return tracker is not None and tracker.currentWatermark() >= watermark

    def _tracker(self) -> Any:
        """Return Spark's watermark tracker; None without a query, and while the query reads its checkpoint."""
        query = self._query
        return query._jsq.streamingQuery().watermarkTracker() if query is not None and query.isActive else None

    def ended(self) -> StreamingQuery | None:
        """Return the query if it has ended by itself; otherwise None."""
        query = self._query
        if query is None or query.isActive:
            return None
        # read this after the query has ended, because the runner's thread sets it before it stops a query
        return None if self._end.is_expected or query is not self._query else query

    @property
    def is_active(self) -> bool:
        query = self._query
        return query is not None and bool(query.isActive)

    def stop_to_restart_batch(self) -> bool:
        """Stop the query and return True if files of its batch have become complete; otherwise return False.

        Only a new query lists the files again.
        """
        query = self._query
        if not self._awaits_restart or query is None:
            return False
        self._awaits_restart = False
        self._end.expect()
        self._end.interrupt()
        query.stop()
        return True

    def state_rows(self) -> int:
        """Return the number of state rows of the query after the last micro-batch of this attempt."""
        progress = None if self._query is None else self._query.lastProgress
        operators = [] if progress is None else progress["stateOperators"]
        if operators:  # a query without new data lists none
            self._state_rows = sum(int(operator["numRowsTotal"]) for operator in operators)
        return self._state_rows

    def ran_out(self) -> None:
        """Record that the query has read all available data (``availableNow``) and ended. Publish its last batch."""
        self._end.expect()
        self._batches.finish_committed()

    def stop_after_batch(self) -> None:
        """Stop the query, between two batches if possible, and publish its last batch."""
        query, batches = self._query, self._batches
        if query is None:
            return
        with batches.lock:
            self.wait_for_batch(math.inf)
            self._end.expect()
        self._end.interrupt()
        query.stop()
        self._batches.finish_committed()

    def run_planned(self, built: BuiltQuery) -> None:
        """Run exactly the planned batch that is not committed. ``built`` is the query for which it was planned."""
        folder = self._batches.folder
        planned = folder.newest_offsets()
        self._launch(built, {"once": True}).awaitTermination()
        self._end.expect()
        self._batches.finish_committed()
        if planned != folder.newest_commit():
            # the driver was stopped meanwhile; without this batch there is neither a boundary nor an end of data
            uid = self._batches.vertex.uid
            raise QueryFailedError(vertex=uid, cause=f"it was stopped in the planned batch {planned}")

    def failure(self, query: StreamingQuery) -> BaseException:
        error = query.exception()
        ending = error if error is not None else RuntimeError("it ended without an exception")
        inside = self._end.failure
        failed_query, failure = self._failed  # read this last, because it is set before the current failure is reset
        return self._without_wrapper(ending, failure if query is failed_query else inside)

    def cause(self, error: BaseException) -> BaseException:
        """Return the error that ``foreachBatch`` raised, without Spark's wrapper.

        If it raised none, return ``error`` with a description of its cause.
        """
        return self._without_wrapper(error, self._end.failure)

    def _without_wrapper(self, error: BaseException, inside: BaseException | None) -> BaseException:
        if isinstance(inside, CkptError):
            return _copied(inside)  # a copy, because an error that is raised again keeps more and more frames alive
        failure = error if inside is None else inside
        return query_failed(self._batches.vertex.uid, failure, self._batches.being_read)

    def _launch(self, built: BuiltQuery, trigger: Mapping[str, Any]) -> StreamingQuery:
        context, batches = self._context, self._batches
        uid = batches.vertex.uid
        plan = batches.publication.plan
        settings = plan.settings or VertexSettings()
        pool = add_pool(context.spark, uid, settings.pool_weight)
        context.spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        if context.executors is not None:
            context.executors.request_number(uid, settings.executors)
        failure = self._end.failure
        self._failed = (None, None) if failure is None else (self._query, failure)
        self._end.begin()
        self._only_final = built.final
        output_mode = "complete" if built.final and batches.folder.is_final() else built.output_mode
        state_partitions = context.state_partitions_of(uid, settings) if built.stateful else None
        is_consumer = not set(batches.vertex.sources) - plan.without
        folders = [path for read in built.reads.values() for path in read.paths]
        if context.graph.inputs(uid):
            folders.append(batches.folder.location)  # under the same root as the result partitions
        with settings_at_start(context.spark, state_partitions, is_consumer=is_consumer, folders=folders):
            query = (
                built.frame.writeStream.queryName(f"{context.job_id}:{uid}:{context.epoch}")
                .outputMode(output_mode)
                .option("checkpointLocation", batches.folder.location)
                .foreachBatch(BatchFunction(self.foreach_batch))
                .trigger(**trigger)
                .start()
            )
        self._query, self.id = query, str(query.id)
        if self._end.is_run_over:  # the run ended while the query started
            query.stop()
        return query
