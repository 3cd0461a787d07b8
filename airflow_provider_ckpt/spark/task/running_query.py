"""The Spark query of one runner: started, watched, and brought to stand still at a micro-batch boundary."""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from airflow_provider_ckpt.errors import CkptError, OvertakenError
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.spark.query.builder import BuiltQuery
from airflow_provider_ckpt.spark.task.batch_function import BatchFunction
from airflow_provider_ckpt.spark.task.causes import Cause, find_cause
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.errors import FileNotReadError, FilesSettledError, QueryFailedError
from airflow_provider_ckpt.spark.task.hopeless import hopeless
from airflow_provider_ckpt.spark.task.jvm import is_gone
from airflow_provider_ckpt.spark.task.known_warnings import INTERRUPTED
from airflow_provider_ckpt.spark.task.publisher import Publisher
from airflow_provider_ckpt.spark.task.query_end import QueryEnd
from airflow_provider_ckpt.spark.task.scheduler_pool import add_pool
from airflow_provider_ckpt.spark.task.session_settings import starting

_STOPPED_WITHIN = 10.0
"""Seconds that a batch of an overtaken driver waits for its end, which takes the driver's loop a look around."""
_POLL = 0.02


def query_failed(vertex: str, error: BaseException, files: Sequence[str] = ()) -> BaseException:
    """Return ``error`` as one that says first what went wrong; the whole of it is its ``__cause__``.

    ``files``: what the batch reads, normal paths.
    """
    if isinstance(error, CkptError):
        return error
    failed = hopeless(vertex, error, files) or _may_pass(vertex, find_cause(error))
    failed.__cause__ = error
    return failed


def _may_pass(vertex: str, cause: Cause) -> QueryFailedError:
    if cause.file is not None:
        return FileNotReadError(vertex=vertex, file=cause.file, cause=cause.message)
    return QueryFailedError(vertex=vertex, cause=cause.message)


def _another(error: CkptError) -> CkptError:
    """The same, with where it came up and why."""
    other = copy.copy(error).with_traceback(error.__traceback__)
    other.__cause__, other.__context__ = error.__cause__, error.__context__
    other.__suppress_context__ = error.__suppress_context__
    return other


class RunningQuery:
    """At most one Spark query at a time, over the publisher's folder: what the publisher has staged and published while
    one runs, and how each comes to its end. ``id``: Spark's, of the last one. ``after_publish``: called, with the
    publisher's lock held, for each batch that is published from here.

    The runner's own thread starts queries, and stops them at a boundary: ``run``, ``stop_after_batch``,
    ``run_planned``. The driver's loop looks at them: ``wait_for_batch``, ``ended``, ``ran_out``, ``failure``. The loop
    or the thread of a restart ends them for good: ``stop``. Spark calls ``foreach_batch`` in a thread of its own. Any
    thread calls ``publish_committed``, ``cause`` and ``is_stopped``.
    """

    def __init__(self, context: RunContext, publisher: Publisher, after_publish: Callable[[], None]) -> None:
        self.id: str | None = None
        self._context, self._publisher, self._after_publish = context, publisher, after_publish
        self._published = threading.Condition(publisher.lock)
        self._end = QueryEnd()
        self._query: StreamingQuery | None = None
        self._state_rows = 0
        self._begins_again = False
        """A batch waits to be stopped, and to begin again."""
        self._only_final = False
        """Of the query that runs only the last batch is published."""
        self._failed: tuple[StreamingQuery | None, BaseException | None] = None, None
        """The query before, if a batch of it failed, and with what: the driver's loop may be about to ask."""

    @property
    def is_stopped(self) -> bool:
        """For good: the run is over."""
        return self._end.is_for_good

    def run(self, built: BuiltQuery, trigger: Mapping[str, Any]) -> None:
        self._launch(built, trigger)
        self._end.going_on()

    def foreach_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Spark calls it, in its own thread. Who was overtaken publishes and stages nothing more (R8)."""
        try:
            self._publisher.check_fenced()
            self.publish_committed()
            self._publisher.stage(frame, batch_id, lambda: self._end.is_interrupted, only_final=self._only_final)
        except FilesSettledError:
            self._begins_again = True
            self._sleep_until_stopped()
            raise RuntimeError(f"{INTERRUPTED}: files of the batch have become complete") from None
        except BaseException as error:
            self._end.batch_failed(error)
            if isinstance(error, OvertakenError):
                self._await_stop(error)
            if self._end.is_interrupted:
                # Spark overflows the stack on a long message
                raise RuntimeError(f"{INTERRUPTED}: the query was stopped in a batch") from None
            raise

    def _await_stop(self, error: OvertakenError) -> None:
        """The driver says in one line who has the job, and stops the query. An error that comes out of a batch before
        is logged by Spark, with its stack traces and ours."""
        report_crash(self._context, self._publisher.subtask, self._publisher.attempt, error)
        self._sleep_until_stopped()

    def _sleep_until_stopped(self) -> None:
        until = time.monotonic() + _STOPPED_WITHIN
        while not self._end.is_interrupted and time.monotonic() < until:
            time.sleep(_POLL)

    def publish_committed(self) -> None:
        """Publish the batch that Spark has committed, if there is one."""
        with self._publisher.lock:
            if self._publisher.publish_committed():
                self._published.notify_all()
                self._after_publish()

    def wait_for_batch(self, until: float) -> None:
        """Return between two batches, with the one before published, or when it is ``until`` (of
        ``time.monotonic``). Raises what publishing raises; the next attempt does it then."""
        query, publisher = self._query, self._publisher
        if query is None:
            return
        with publisher.lock:
            before = publisher.log.state.last_batch
            while time.monotonic() < until and query.isActive and query.status["isTriggerActive"]:
                if publisher.log.state.last_batch is not before:
                    return
                self._published.wait(_POLL)
            self.publish_committed()  # the event that a batch is committed comes behind the end of its trigger

    def stop(self) -> None:
        """Stop where it is: an unpublished batch runs again in the next attempt."""
        self._end.give_up()  # before the query is looked for: whoever is starting one looks behind that
        query = self._query
        if query is not None and not is_gone() and query.isActive:
            query.stop()

    def raise_watermark(self, watermark: int) -> None:
        """Have the next micro-batch planned with this watermark, if the query has a lower one. Epoch milliseconds."""
        query = self._query
        if query is None or not query.isActive:
            return
        tracker: Any = query._jsq.streamingQuery().watermarkTracker()
        if tracker is not None and tracker.currentWatermark() < watermark:  # None: it is still reading its checkpoint
            tracker.setWatermark(watermark)

    def ended(self) -> StreamingQuery | None:
        """The query, if it ended and nobody here ended it."""
        query = self._query
        if query is None or query.isActive:
            return None
        # asked for after it was found ended: the runner's thread says so before it stops a query
        return None if self._end.is_expected or query is not self._query else query

    @property
    def is_active(self) -> bool:
        query = self._query
        return query is not None and bool(query.isActive)

    def stop_to_begin_batch_again(self) -> bool:
        """Stop the query if files of its batch have become complete: only a new one lists them again. Return whether
        it was stopped."""
        query = self._query
        if not self._begins_again or query is None:
            return False
        self._begins_again = False
        self._end.expect()
        self._end.interrupt()
        query.stop()
        return True

    def state_rows(self) -> int:
        """Return how many rows of state the query had after the last micro-batch of this attempt."""
        progress = None if self._query is None else self._query.lastProgress
        operators = [] if progress is None else progress["stateOperators"]
        if operators:  # a query that has found nothing to do lists none
            self._state_rows = sum(int(one["numRowsTotal"]) for one in operators)
        return self._state_rows

    def ran_out(self) -> None:
        """It had read all there was (``availableNow``), and ended."""
        self._end.expect()
        self.publish_committed()

    def stop_after_batch(self) -> None:
        """Stop between two batches if that can be had: right after one is published, or while none runs."""
        query, publisher = self._query, self._publisher
        if query is None:
            return
        with publisher.lock:
            self.wait_for_batch(math.inf)
            self._end.expect()
        self._end.interrupt()
        query.stop()
        self.publish_committed()

    def run_planned(self, built: BuiltQuery) -> None:
        """Run exactly the batch that is planned but not committed; ``built``: the plan it was made for."""
        folder = self._publisher.folder
        planned = folder.newest_offsets()
        self._launch(built, {"once": True}).awaitTermination()
        self._end.expect()
        self.publish_committed()
        if planned != folder.newest_commit():
            # the driver was stopped meanwhile: without this batch there is no boundary, and no end of data
            uid = self._publisher.vertex.uid
            raise QueryFailedError(vertex=uid, cause=f"it was stopped in the planned batch {planned}")

    def failure(self, query: StreamingQuery) -> BaseException:
        error = query.exception()
        ending = error if error is not None else RuntimeError("it ended without an exception")
        inside = self._end.failure
        before, failure = self._failed  # looked at last: it is set before what it holds is forgotten
        return self._told(ending, failure if query is before else inside)

    def cause(self, error: BaseException) -> BaseException:
        """What ``foreachBatch`` raised rather than Spark's wrapping of it, in the words of whoever raised it first."""
        return self._told(error, self._end.failure)

    def _told(self, error: BaseException, inside: BaseException | None) -> BaseException:
        if isinstance(inside, CkptError):
            return _another(inside)  # raised again, it would hold who raises it
        failure = error if inside is None else inside
        return query_failed(self._publisher.vertex.uid, failure, self._publisher.being_read)

    def _launch(self, built: BuiltQuery, trigger: Mapping[str, Any]) -> StreamingQuery:
        context, publisher = self._context, self._publisher
        uid = publisher.vertex.uid
        plan = publisher.publication.plan
        settings = plan.settings or VertexSettings()
        pool = add_pool(context.spark, uid, settings.pool_weight)
        context.spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        if context.executors is not None:
            context.executors.want(uid, settings.executors)
        failure = self._end.failure
        self._failed = (None, None) if failure is None else (self._query, failure)
        self._end.begin()
        self._only_final = built.final
        output_mode = "complete" if built.final and publisher.folder.is_final() else built.output_mode
        state_partitions = context.state_partitions_of(uid, settings) if built.stateful else None
        is_consumer = not set(publisher.vertex.sources) - plan.without
        folders = [path for read in built.reads.values() for path in read.paths]
        if context.graph.inputs(uid):
            folders.append(publisher.folder.location)  # the result partitions are below the same root
        with starting(context.spark, state_partitions, is_consumer=is_consumer, folders=folders):
            query = (
                built.frame.writeStream.queryName(f"{context.job_id}:{uid}:{context.epoch}")
                .outputMode(output_mode)
                .option("checkpointLocation", publisher.folder.location)
                .foreachBatch(BatchFunction(self.foreach_batch))
                .trigger(**trigger)
                .start()
            )
        self._query, self.id = query, str(query.id)
        if self._end.is_for_good:  # while it was being started
            query.stop()
        return query
