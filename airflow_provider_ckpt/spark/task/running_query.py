"""The Spark query of one runner: started, watched, and brought to stand still at a micro-batch boundary."""

from __future__ import annotations

import copy
import math
import time
import traceback
import weakref
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.spark.query.builder import BuiltQuery
from airflow_provider_ckpt.spark.task.causes import find_cause
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.errors import QueryFailedError
from airflow_provider_ckpt.spark.task.hopeless import hopeless
from airflow_provider_ckpt.spark.task.jvm import is_gone
from airflow_provider_ckpt.spark.task.publisher import Publisher
from airflow_provider_ckpt.spark.task.scheduler_pool import add_pool

_POLL = 0.02


def query_failed(vertex: str, error: BaseException) -> BaseException:
    """``error`` as one that says what went wrong first; the whole of it is its ``__cause__``."""
    if isinstance(error, CkptError):
        return error
    failed = hopeless(vertex, error) or QueryFailedError(vertex=vertex, cause=find_cause(error).message)
    failed.__cause__ = error
    return failed


class _BatchFunction:
    """What Spark calls for each batch. The JVM keeps it as long as it has the query, and the task keeps the query: held
    by it in turn, neither would ever be let go, and the query and its session would stay in the driver's memory (some
    2 MB for each restart)."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = weakref.ref(publisher)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        publisher = self._publisher()
        if publisher is None:
            raise RuntimeError("java.lang.InterruptedException: the task of this query is gone")
        try:
            publisher.foreach_batch(frame, batch_id)
        except BaseException as error:
            _forget_locals(error)  # PySpark keeps what the function has raised beside it
            publisher = None
            raise


def _another(error: CkptError) -> CkptError:
    """The same, with where it came up and why."""
    other = copy.copy(error).with_traceback(error.__traceback__)
    other.__cause__, other.__context__ = error.__cause__, error.__context__
    other.__suppress_context__ = error.__suppress_context__
    return other


def _forget_locals(error: BaseException | None) -> None:
    """What the functions held in which it came up; where that was can still be told."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


class RunningQuery:
    """At most one Spark query at a time, over the publisher's folder. ``id``: Spark's, of the last one."""

    def __init__(self, context: RunContext, publisher: Publisher) -> None:
        self.id: str | None = None
        self.is_stopped = False
        """For good: the run is over."""
        self._context, self._publisher = context, publisher
        self._query: StreamingQuery | None = None
        self._expected_stop = True

    def run(self, built: BuiltQuery, trigger: Mapping[str, Any]) -> None:
        self._launch(built, trigger)
        self._expected_stop = False

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
                publisher.published.wait(_POLL)
            publisher.publish_committed()  # the event that a batch is committed comes behind the end of its trigger

    def stop(self) -> None:
        """Stop where it is: an unpublished batch runs again in the next attempt."""
        self._expected_stop = self.is_stopped = self._publisher.is_stopping = True
        query = self._query
        if query is not None and not is_gone() and query.isActive:
            query.stop()

    def ended(self) -> StreamingQuery | None:
        """The query, if it ended and nobody here ended it."""
        query = self._query
        if query is None or query.isActive:
            return None
        # asked for after it was found ended: the runner's thread says so before it stops a query
        return None if self._expected_stop or query is not self._query else query

    def ran_out(self) -> None:
        """It had read all there was (``availableNow``), and ended."""
        self._expected_stop = True
        self._publisher.publish_committed()

    def stop_after_batch(self) -> None:
        """Stop between two batches if that can be had: right after one is published, or while none runs."""
        query, publisher = self._query, self._publisher
        if query is None:
            return
        with publisher.lock:
            self.wait_for_batch(math.inf)
            self._expected_stop = True
        publisher.is_stopping = True
        query.stop()
        publisher.publish_committed()

    def run_planned(self, built: BuiltQuery) -> None:
        """Run exactly the batch that is planned but not committed; ``built``: the plan it was made for."""
        folder = self._publisher.folder
        planned = folder.newest_offsets()
        self._launch(built, {"once": True}).awaitTermination()
        self._expected_stop = True
        self._publisher.publish_committed()
        if planned != folder.newest_commit():
            # the driver was stopped meanwhile: without this batch there is no boundary, and no end of data
            uid = self._publisher.vertex.uid
            raise QueryFailedError(vertex=uid, cause=f"it was stopped in the planned batch {planned}")

    def failure(self, query: StreamingQuery) -> BaseException:
        error = query.exception()
        return self.cause(error if error is not None else RuntimeError("it ended without an exception"))

    def cause(self, error: BaseException) -> BaseException:
        """What ``foreachBatch`` raised rather than Spark's wrapping of it, in the words of whoever raised it first."""
        inside = self._publisher.failure
        if isinstance(inside, CkptError):
            return _another(inside)  # raised again, it would hold who raises it
        return query_failed(self._publisher.vertex.uid, error if inside is None else inside)

    def _launch(self, built: BuiltQuery, trigger: Mapping[str, Any]) -> StreamingQuery:
        context, publisher = self._context, self._publisher
        uid = publisher.vertex.uid
        add_pool(context.spark, uid)
        context.spark.sparkContext.setLocalProperty("spark.scheduler.pool", uid)
        publisher.failure, publisher.is_stopping = None, self.is_stopped
        query = (
            built.frame.writeStream.queryName(f"{context.job_id}:{uid}:{context.epoch}")
            .outputMode(built.output_mode)
            .option("checkpointLocation", publisher.folder.location)
            .foreachBatch(_BatchFunction(publisher))
            .trigger(**trigger)
            .start()
        )
        self._query, self.id = query, str(query.id)
        if self.is_stopped:  # while it was being started
            query.stop()
        return query
