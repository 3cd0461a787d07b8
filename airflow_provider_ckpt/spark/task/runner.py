"""Runs one vertex in STREAMING mode: the life of its Spark query, from its start to the end of data.

Who calls what, in which thread:

* the driver's loop: ``start``, ``trigger``, ``pull_inputs``, ``drop``, ``resume``, ``drain``, ``finish``, ``stop``;
* Spark's callback threads: ``on_progress``, and the publisher's ``foreach_batch``;
* one thread of its own for what takes long (stopping at a boundary, starting again, ending).

The query itself is :class:`RunningQuery`'s, what its micro-batches become is :class:`Publisher`'s.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from airflow_provider_ckpt.coordinator.messages import (
    SourceAtEnd,
    StoppedAtBoundary,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskRunning,
)
from airflow_provider_ckpt.spark.query.builder import BuiltQuery, QueryBuilder, can_drop
from airflow_provider_ckpt.spark.query.frozen import list_files, unescaped_path
from airflow_provider_ckpt.spark.query.reader import SourceReads
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.inputs import BoundedInput
from airflow_provider_ckpt.spark.task.publisher import Publisher
from airflow_provider_ckpt.spark.task.running_query import RunningQuery


class VertexRunner:
    """One attempt of one subtask."""

    def __init__(self, context: RunContext, publisher: Publisher, builder: QueryBuilder) -> None:
        self.vertex, self.subtask = publisher.vertex, publisher.subtask
        self._context, self._publisher, self._builder = context, publisher, builder
        self._log, self._folder, self._inputs = publisher.log, publisher.folder, publisher.inputs
        self._lock = publisher.lock
        publisher.after_publish = self._note_ended
        self._reported: set[str] = set()
        self._query = RunningQuery(context, publisher)
        self._built: BuiltQuery | None = None
        self._waits_for_edges = False
        self._ending: str | None = None
        self._draining = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ckpt-{self.vertex.uid}")

    @property
    def query_id(self) -> str | None:
        return self._query.id

    # ---- the driver's loop

    def start(self) -> None:
        """Start the query, or go straight to the end if nothing is left to read."""
        self._submit(self._start)

    def trigger(self, checkpoint: int) -> None:
        self._publisher.trigger(checkpoint)

    def pull_inputs(self) -> None:
        """Read on in the producers' logs; snapshot where a barrier is due, feed what may be read."""
        if not self._inputs.edges:
            return
        with self._lock:
            self._publisher.act_on_inputs()
            self._note_ended()

    def drop(self, uid: str) -> None:
        with self._lock:
            self._waits_for_edges = False
        self._submit(lambda: self._stop_to_drop(uid))

    def resume(self, uid: str) -> None:
        self._publisher.dropped |= {uid}
        self._submit(self._start)

    def drain(self) -> None:
        """End the unbounded sources where they stand; bounded ones and input edges are read to their end first."""
        with self._lock:
            self._draining = True
            self._note_ended()

    def finish(self) -> None:
        self._log.end_of_partition()
        self._publisher.notify_consumers()
        self._publisher.post(SubtaskDone)
        self.close()

    def wait_for_batch(self, until: float) -> None:
        """Return between two batches, or when it is ``until`` (of ``time.monotonic``)."""
        self._query.wait_for_batch(until)

    def stop(self) -> None:
        """Stop the query where it is: an unpublished batch runs again in the next attempt."""
        self._query.stop()

    def close(self) -> None:
        """Returns when the runner's thread has ended: nothing of this attempt runs on behind the driver."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def check(self) -> None:
        """Raise what ended the query, if it was not us. Called by the driver's loop all the time."""
        self._look_for_remaining(time.monotonic())
        ended = self._query.ended()
        if ended is None:
            return
        if ended.exception() is None and self._runs_out:
            self._ran_out()
            return
        raise self._query.failure(ended)

    def _look_for_remaining(self, now: float) -> None:
        """A frozen file that vanished would keep its source from ending, and the job from finishing, for ever."""
        built = self._built
        if built is None or self._ending is not None:
            return
        for uid, source in self._inputs.bounded.items():
            if uid in built.reads and source.is_stuck(now):
                self._submit(functools.partial(self._refuse_missing, source, built.reads[uid]))

    def _refuse_missing(self, source: BoundedInput, reads: SourceReads) -> None:
        source.refuse_missing(unescaped_path(file) for file in list_files(self._context.spark, reads))

    def late_files(self) -> set[str]:
        """Normal paths of files that bounded sources read though they are not in the frozen lists."""
        return {path for source in self._inputs.bounded.values() for path in source.late}

    # ---- Spark's callback threads

    def on_progress(self) -> None:
        if (
            not self._query.is_stopped
        ):  # an event may come late: the run is over, and the next attempt publishes the batch
            self._guard(self._publisher.publish_committed)

    # ---- ends

    def _note_ended(self) -> None:
        """Tell the coordinator about sources that ended; end the vertex after the last one."""
        if self._ending is not None or self._built is None:
            return
        if self._waits_for_edges and self._edges_ended():
            self._waits_for_edges, built = False, self._built
            self._submit(lambda: self._run(built))
        ended = self._inputs.ended()
        present = (set(self._built.reads) | set(self._inputs.edges)) - self._publisher.dropped
        ending = present & (set(self._inputs.edges) | set(self._inputs.bounded))
        if not present - ended:
            self._begin_end("finish")
        elif self._draining and present - ending and ending <= ended:
            self._begin_end("drain")
        else:
            self._report_ended((present & ended) - self._reported)

    def _report_ended(self, uids: set[str]) -> None:
        last = self._log.state.last_batch
        for uid in sorted(uids):
            self._reported.add(uid)
            droppable = can_drop(self._builder, uid, self._publisher.dropped)
            self._publisher.post(
                SourceAtEnd, uid=uid, batch_id=-1 if last is None else last.batch_id, droppable=droppable
            )

    # ---- the runner's own thread

    def _start(self) -> None:
        if self._log.state.end_of_data is not None:  # the log's tail decides (R11): nothing is read any more
            self._ending = self._log.state.end_of_data
            self._publisher.post(SubtaskAtEndOfData, mode=self._ending)
            return
        if self._folder.is_final():
            self._built = self._builder.build(self._publisher.dropped)
            self._ending = "drain"  # the batch at the maximal watermark was planned: only the end is left (R12)
            self._end("drain")
            return
        built = self._builder.build(self._publisher.dropped)
        with self._lock:
            self._built = built
            self._reported &= self._publisher.dropped
            self._note_ended()
            if self._ending is not None:
                return
        if self._runs_out and not self._edges_ended():
            self._waits_for_edges = True
        else:
            self._run(built)
        self._publisher.post(SubtaskRunning)

    def _run(self, built: BuiltQuery) -> None:
        trigger: dict[str, Any] = {
            "processingTime": f"{int(self._context.options.trigger_interval * 1000)} milliseconds"
        }
        self._query.run(built, {"availableNow": True} if self._runs_out else trigger)

    def _edges_ended(self) -> bool:
        """All that will ever come in by the edges was fed; ``availableNow`` takes what is there for the end."""
        return all(edge.ended for uid, edge in self._inputs.edges.items() if uid not in self._publisher.dropped)

    @property
    def _runs_out(self) -> bool:
        """A bounded source whose end is in no file list: ``availableNow`` says where it ends, at each start."""
        return bool(set(self.vertex.bounded_sources) - set(self._inputs.bounded) - self._publisher.dropped)

    def _ran_out(self) -> None:
        self._query.ran_out()
        with self._lock:
            if self._ending is None:
                self._begin_end("finish")

    def _stop_to_drop(self, uid: str) -> None:
        self._settle()
        commit = self._folder.newest_commit()
        self._publisher.post(StoppedAtBoundary, uid=uid, batch_id=-1 if commit is None else commit)

    def _settle(self) -> None:
        """Stand still with newest offsets = newest commits (R2)."""
        self._query.stop_after_batch()
        if not self._folder.at_boundary():
            self._run_planned()

    def _run_planned(self) -> None:
        self._query.run_planned(self._builder.build(self._publisher.dropped))

    def _begin_end(self, mode: str) -> None:
        self._ending = mode
        self._submit(lambda: self._end(mode))

    def _end(self, mode: str) -> None:
        """End of data: nothing more is read; windows fire; the end goes into the log (R11)."""
        if mode == "finish" or self._folder.is_final():
            self._query.stop_after_batch()
            self._finish_planned()
        else:
            self._settle()
        self._fire_windows()
        self._log.end_of_data(mode)
        self._publisher.notify_consumers()
        self._publisher.post(SubtaskAtEndOfData, mode=mode)

    def _finish_planned(self) -> None:
        if self._folder.at_boundary():
            return
        if self._folder.is_final():
            self._run_planned()
        else:
            self._folder.forget_planned()  # every source is read to its end: the plan can hold late files only

    def _fire_windows(self) -> None:
        """Flink's MAX_WATERMARK: Spark has no such thing, ``availableNow`` leaves the last windows in state."""
        commit = self._folder.newest_commit()
        built = self._built
        if commit is None or built is None or not (built.watermark and built.stateful) or self._folder.is_final():
            return
        self._folder.plan_final_batch(commit, int(time.time() * 1000))
        self._run_planned()

    def _submit(self, work: Callable[[], None]) -> None:
        self._thread.submit(self._guard, work)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            report_crash(self._context, self.subtask, self._query.cause(error))
