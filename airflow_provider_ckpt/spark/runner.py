"""Runs one vertex in STREAMING mode: one Spark query, its log, its inputs and its outputs.

Who calls what, in which thread:

* the driver's loop: ``start``, ``trigger``, ``pull_inputs``, ``drop``, ``resume``, ``drain``, ``finish``, ``stop``;
* Spark's callback threads: ``_foreach_batch`` and ``on_progress``;
* one thread of its own for what takes long (stopping at a boundary, starting again, ending).

A micro-batch is published (R1) in this order:

1. ``_foreach_batch`` stages outputs under fresh names and writes the *prepared* record;
2. Spark commits the batch (``commits/<b>``);
3. ``publish_committed`` appends the one entry that makes the batch count. It runs after the query's progress
   event, and at the latest before the next batch stages anything.

A barrier is appended at the last published entry, without waiting for the batch that is running.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from airflow_provider_ckpt.coordinator.messages import (
    BarrierAcknowledged,
    SourceAtEnd,
    StoppedAtBoundary,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskRunning,
)
from airflow_provider_ckpt.errors import CkptError, QueryFailedError
from airflow_provider_ckpt.job.graph import Vertex
from airflow_provider_ckpt.partitions.input_gate import TakeSnapshot
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.spark.context import InputAdvanced, RunContext, WorkerCrashed
from airflow_provider_ckpt.spark.folder import SparkFolder
from airflow_provider_ckpt.spark.inputs import Inputs
from airflow_provider_ckpt.spark.outputs import Outputs, Prepared, PreparedStore
from airflow_provider_ckpt.spark.query import BuiltQuery, QueryBuilder, can_drop

log = logging.getLogger(__name__)

_POLL = 0.02


class VertexRunner:
    """One attempt of one subtask. ``prepared``: where it notes what it has staged."""

    def __init__(
        self,
        context: RunContext,
        vertex: Vertex,
        subtask: str,
        *,
        log: SubtaskLog,
        folder: SparkFolder,
        builder: QueryBuilder,
        inputs: Inputs,
        outputs: Outputs,
        prepared: PreparedStore,
        dropped: frozenset[str],
    ) -> None:
        self.vertex, self.subtask = vertex, subtask
        self.log, self.folder, self.inputs = log, folder, inputs
        self.query_id: str | None = None
        self._context, self._builder, self._outputs, self._prepared = context, builder, outputs, prepared
        self._dropped = dropped
        self._reported: set[str] = set()
        self._query: StreamingQuery | None = None
        self._built: BuiltQuery | None = None
        self._pending: Prepared | None = None
        self._lock = threading.RLock()
        self._published = threading.Condition(self._lock)
        self._failure: BaseException | None = None
        self._expected_stop = True
        self._stopped = False
        self._waits_for_edges = False
        self._ending: str | None = None
        self._draining = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ckpt-{vertex.uid}")

    # ---- the driver's loop

    def recover(self, before: Iterable[Prepared | None]) -> None:
        """Publish the batch that Spark committed but the attempt before did not (R1); catch up with the logs.

        ``before``: what each earlier attempt prepared last, newest first. It need not be the last attempt that
        prepared the batch: one may have died after it had copied the commit, and before it published.
        """
        with self._lock:
            commit = self.folder.newest_commit()
            last = self.log.state.last_batch
            if last is not None:
                self.inputs.advance(last.offsets)
                self.inputs.published()
            if commit is None or (last is not None and commit <= last.batch_id):
                return
            prepared = next((one for one in before if one is not None and one.batch_id == commit), None)
            if prepared is None:
                raise QueryFailedError(
                    vertex=self.vertex.uid,
                    cause=f"Spark committed batch {commit}, of which no prepared output is known",
                )
            self._pending = prepared
            self.publish_committed()

    def start(self) -> None:
        """Start the query, or go straight to the end if nothing is left to read."""
        self._submit(self._start)

    def trigger(self, checkpoint: int) -> None:
        """Append the barrier at the last published entry and acknowledge it."""
        with self._lock:
            snapshot = self.log.barrier(self._context.epoch, checkpoint)
            self.inputs.gate.snapshotted(checkpoint)
        self._post(BarrierAcknowledged, checkpoint=checkpoint, snapshot=snapshot)
        self._notify_consumers()

    def pull_inputs(self, now: float) -> None:
        """Read on in the producers' logs; snapshot where a barrier is due, feed what may be read."""
        if not self.inputs.edges:
            return
        with self._lock:
            self._act_on_inputs(now)
            self._note_ended()

    def drop(self, uid: str) -> None:
        with self._lock:
            self._waits_for_edges = False
        self._submit(lambda: self._stop_to_drop(uid))

    def resume(self, uid: str) -> None:
        self._dropped |= {uid}
        self._submit(self._start)

    def drain(self) -> None:
        """End the unbounded sources where they stand; input edges are read to their end first."""
        with self._lock:
            self._draining = True
            self._note_ended()

    def finish(self) -> None:
        self.log.end_of_partition()
        self._notify_consumers()
        self._post(SubtaskDone)
        self.close()

    def stop(self) -> None:
        """Stop the query where it is: an unpublished batch runs again in the next attempt."""
        self._expected_stop = self._stopped = True
        query = self._query
        if query is not None and query.isActive:
            query.stop()

    def close(self) -> None:
        """Returns when the runner's thread has ended: nothing of this attempt runs on behind the driver."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def check(self) -> None:
        """Raise what ended the query, if it was not us. Called by the driver's loop all the time."""
        query = self._query
        if query is None or query.isActive:
            return
        # asked for after it was found ended: the runner's thread says so before it stops a query
        if self._expected_stop or query is not self._query:
            return
        if query.exception() is None and self._runs_out:
            self._ran_out()
            return
        raise self._query_failure(query)

    def late_files(self) -> set[str]:
        """Normal paths of files that bounded sources read though they are not in the frozen lists."""
        return {path for source in self.inputs.bounded.values() for path in source.late}

    # ---- Spark's callback threads

    def on_progress(self) -> None:
        if not self._stopped:  # an event may come late: the run is over, and the next attempt publishes the batch
            self._guard(self.publish_committed)

    def publish_committed(self) -> None:
        """Append the entry of the prepared batch if Spark has committed it."""
        with self._lock:
            prepared = self._pending
            if prepared is None or not self.folder.is_committed(prepared.batch_id):
                return
            offsets = self.folder.offsets(prepared.batch_id)
            self.inputs.advance(offsets)
            self._act_on_inputs()  # unaligned, what lies behind a barrier is published after the snapshot
            self.log.publish(self._entry(prepared, offsets))
            self.inputs.published()
            self._pending = None
            self._published.notify_all()
            self._act_on_inputs()  # aligned, the batch may have been all that the snapshot waited for
            self._note_ended()
        self._notify_consumers()

    def _foreach_batch(self, frame: DataFrame, batch_id: int) -> None:
        try:
            self._check_fenced()
            self.publish_committed()
            prepared = self._outputs.stage(frame, batch_id)
            self._prepared.write(prepared)
            with self._lock:
                self._pending = prepared
            self._check_fenced()
        except BaseException as error:
            self._failure = error
            raise

    # ---- publishing

    def _entry(self, prepared: Prepared, offsets: dict[str, str]) -> Batch:
        return Batch(
            batch_id=prepared.batch_id,
            offsets=offsets,
            inputs=self._positions(),
            files=prepared.files,
            handles={uid: dict(handle) for uid, handle in prepared.handles.items()},
            watermark=self.folder.watermark_after(prepared.batch_id),
            ended=tuple(sorted(self.inputs.ended() | self._dropped)),
        )

    def _positions(self) -> dict[str, int]:
        """Edges that were dropped stay where they ended: what lies before is no longer needed."""
        last = self.log.state.last_batch
        return {**(last.inputs if last is not None else {}), **self.inputs.positions()}

    def _act_on_inputs(self, now: float | None = None) -> None:
        for action in self.inputs.pull(time.time() if now is None else now):
            if isinstance(action, TakeSnapshot):
                self.trigger(action.checkpoint)
            else:
                self.inputs.carry_out(action)

    def _note_ended(self) -> None:
        """Tell the coordinator about sources that ended; end the vertex after the last one."""
        if self._ending is not None or self._built is None:
            return
        if self._waits_for_edges and self._edges_ended():
            self._waits_for_edges, built = False, self._built
            self._submit(lambda: self._run(built))
        ended = self.inputs.ended()
        present = (set(self._built.reads) | set(self.inputs.edges)) - self._dropped
        unbounded = present - set(self.inputs.edges) - set(self.inputs.bounded)
        edges = present & set(self.inputs.edges)
        if not present - ended:
            self._begin_end("finish")
        elif self._draining and unbounded and edges <= ended:
            self._begin_end("drain")
        else:
            self._report_ended((present & ended) - self._reported)

    def _report_ended(self, uids: set[str]) -> None:
        last = self.log.state.last_batch
        for uid in sorted(uids):
            self._reported.add(uid)
            droppable = can_drop(self._builder, uid, self._dropped)
            self._post(SourceAtEnd, uid=uid, batch_id=-1 if last is None else last.batch_id, droppable=droppable)

    # ---- the runner's own thread

    def _start(self) -> None:
        if self.log.state.end_of_data is not None:  # the log's tail decides (R11): nothing is read any more
            self._ending = self.log.state.end_of_data
            self._post(SubtaskAtEndOfData, mode=self._ending)
            return
        if self.folder.is_final():
            self._built = self._builder.build(self._dropped)
            self._ending = "drain"  # the batch at the maximal watermark was planned: only the end is left (R12)
            self._end("drain")
            return
        built = self._builder.build(self._dropped)
        with self._lock:
            self._built = built
            self._reported &= self._dropped
            self._note_ended()
            if self._ending is not None:
                return
        if self._runs_out and not self._edges_ended():
            self._waits_for_edges = True
        else:
            self._run(built)
        self._post(SubtaskRunning)

    def _run(self, built: BuiltQuery) -> None:
        self._launch(built, self._trigger())
        self._expected_stop = False

    def _edges_ended(self) -> bool:
        """All that will ever come in by the edges was fed; ``availableNow`` takes what is there for the end."""
        return all(edge.ended for uid, edge in self.inputs.edges.items() if uid not in self._dropped)

    @property
    def _runs_out(self) -> bool:
        """A bounded source whose end is in no file list: ``availableNow`` says where it ends, at each start."""
        return bool(set(self.vertex.bounded_sources) - set(self.inputs.bounded) - self._dropped)

    def _ran_out(self) -> None:
        self._expected_stop = True
        self.publish_committed()
        with self._lock:
            if self._ending is None:
                self._begin_end("finish")

    def _trigger(self) -> dict[str, Any]:
        if self._runs_out:
            return {"availableNow": True}
        return {"processingTime": f"{int(self._context.options.trigger_interval * 1000)} milliseconds"}

    def _launch(self, built: BuiltQuery, trigger: dict[str, Any]) -> StreamingQuery:
        spark = self._context.spark
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.vertex.uid)
        self._failure = None
        query = (
            built.frame.writeStream.queryName(f"{self._context.job_id}:{self.vertex.uid}:{self._context.epoch}")
            .outputMode(built.output_mode)
            .option("checkpointLocation", self.folder.location)
            .foreachBatch(self._foreach_batch)
            .trigger(**trigger)
            .start()
        )
        self._query, self.query_id = query, str(query.id)
        if self._stopped:  # while it was being started
            query.stop()
        return query

    def _stop_to_drop(self, uid: str) -> None:
        self._settle()
        commit = self.folder.newest_commit()
        self._post(StoppedAtBoundary, uid=uid, batch_id=-1 if commit is None else commit)

    def _settle(self) -> None:
        """Stand still with newest offsets = newest commits (R2)."""
        self._stop_after_batch()
        if not self.folder.at_boundary():
            self._run_planned()

    def _stop_after_batch(self) -> None:
        """Stop between two batches if that can be had: right after one is published, or while none runs."""
        query = self._query
        if query is None:
            return
        with self._lock:
            before = self.log.state.last_batch
            while query.isActive and query.status["isTriggerActive"] and self.log.state.last_batch is before:
                self._published.wait(_POLL)
            self._expected_stop = True
        query.stop()
        self.publish_committed()

    def _run_planned(self) -> None:
        """Run exactly the batch that is planned but not committed, with the plan it was made for."""
        assert self._built is not None
        planned = self.folder.newest_offsets()
        query = self._launch(self._builder.build(self._dropped), {"once": True})
        query.awaitTermination()
        self._expected_stop = True
        self.publish_committed()
        if planned != self.folder.newest_commit():
            # the driver was stopped meanwhile: without this batch there is no boundary, and no end of data
            raise QueryFailedError(vertex=self.vertex.uid, cause=f"it was stopped in the planned batch {planned}")

    def _begin_end(self, mode: str) -> None:
        self._ending = mode
        self._submit(lambda: self._end(mode))

    def _end(self, mode: str) -> None:
        """End of data: nothing more is read; windows fire; the end goes into the log (R11)."""
        if mode == "finish" or self.folder.is_final():
            self._stop_after_batch()
            self._finish_planned()
        else:
            self._settle()
        self._fire_windows()
        self.log.end_of_data(mode)
        self._notify_consumers()
        self._post(SubtaskAtEndOfData, mode=mode)

    def _finish_planned(self) -> None:
        if self.folder.at_boundary():
            return
        if self.folder.is_final():
            self._run_planned()
        else:
            self.folder.forget_planned()  # every source is read to its end: the plan can hold late files only

    def _fire_windows(self) -> None:
        """Flink's MAX_WATERMARK: Spark has no such thing, ``availableNow`` leaves the last windows in state."""
        commit = self.folder.newest_commit()
        built = self._built
        if commit is None or built is None or not (built.watermark and built.stateful) or self.folder.is_final():
            return
        self.folder.plan_final_batch(commit, int(time.time() * 1000))
        self._run_planned()

    def _submit(self, work: Callable[[], None]) -> None:
        self._thread.submit(self._guard, work)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._context.post(WorkerCrashed(self.subtask, self._cause(error)))

    # ---- telling others

    def _post(self, kind: Callable[..., object], **fields: Any) -> None:
        message = kind(epoch=self._context.epoch, subtask=self.subtask, attempt=self._context.attempt, **fields)
        self._context.post(message)

    def _notify_consumers(self) -> None:
        for edge in self._context.graph.outputs(self.vertex.uid):
            self._context.post(InputAdvanced(f"{edge.consumer}/0"))

    def _check_fenced(self) -> None:
        self._context.check_fenced()
        self.log.check_fenced()

    def _query_failure(self, query: StreamingQuery) -> BaseException:
        error = query.exception()
        return self._cause(error if error is not None else RuntimeError("it ended without an exception"))

    def _cause(self, error: BaseException) -> BaseException:
        """Our own error from inside ``foreachBatch`` rather than Spark's wrapping of it."""
        if isinstance(self._failure, CkptError):
            return self._failure
        if isinstance(error, CkptError):
            return error
        return QueryFailedError(vertex=self.vertex.uid, cause=f"{type(error).__name__}: {error}")
