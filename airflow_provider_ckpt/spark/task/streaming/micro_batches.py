"""Micro-batches of a subtask: each batch that Spark has committed becomes an entry of the subtask's log (R1).

The order for a micro-batch is:

1. ``stage`` stages outputs under new names and writes the *prepared* record.
2. Spark commits the batch (``commits/<b>``).
3. ``finish_committed`` appends the entry that publishes the batch. It runs after the query's progress event, and at the
   latest before the next batch stages anything.

Before and after staging, the attempt checks that no later driver or attempt has fenced it (R8). :class:`Publication`
decides what is appended, and in which order. :class:`RunningQuery` decides how the query ends.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from pyspark.sql import DataFrame

from airflow_provider_ckpt.coordinator.protocol.reports import FileAwaited
from airflow_provider_ckpt.model.file_status import FileStatus
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.progress import SourceTimes, TimesByInput, combined
from airflow_provider_ckpt.model.source_times import MAX_WATERMARK
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.batch_execution import (
    execution_of_batch,
    late_rows_of_batch,
    source_times_of_batch,
)
from airflow_provider_ckpt.spark.task.batch_files import (
    files_of_batch,
    largest_of_batch,
    refuse_other_files,
    refuse_unfit_files,
    refuse_unreadable_names,
    refuse_unsettled,
)
from airflow_provider_ckpt.spark.task.errors import UnfitInputError, unfit_event_time
from airflow_provider_ckpt.spark.task.outputs import Outputs
from airflow_provider_ckpt.sparkfiles.seen_files import normal_path, shown_path
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.subtasklog.errors import PreparedLostError
from airflow_provider_ckpt.subtasklog.prepared_store import Prepared, PreparedStore
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.publication import Publication
from airflow_provider_ckpt.task.read_files import ReadFiles
from airflow_provider_ckpt.task.vertex_inputs import Inputs


class MicroBatches:
    """The micro-batches of one attempt of a subtask.

    At most one batch is pending: staged, but not published. It comes from ``recover`` when the attempt is made, or from
    ``stage`` in Spark's thread. Any thread may publish it, under ``lock``.
    """

    def __init__(
        self,
        context: AttemptContext,
        vertex: JobVertex,
        *,
        folder: SparkFolder,
        inputs: Inputs,
        outputs: Outputs,
        prepared: PreparedStore,
        plan: VertexPlan,
        stateful: bool,
        strict: Mapping[str, str] = MappingProxyType({}),
        waits: frozenset[str] = frozenset(),
    ) -> None:
        """Make the micro-batches.

        Args:
            prepared: the records of staged batches.
            strict: input → a source with ``late_rows="fail"`` whose rows the input has.
            waits: sources whose files must have settled before they are read (``unfinished_files="wait"``).
        """
        self.vertex, self.subtask, self.attempt = vertex, context.subtask, context.attempt
        self.folder, self.inputs = folder, inputs
        self.publication = Publication(
            context.log, context.task_id, inputs, plan=plan, post=context.run.post, notify=context.notify_consumers
        )
        self.published = threading.Condition(self.lock)
        """Condition that is notified after each published batch."""
        self.after_publish: Callable[[], None] = lambda: None
        """Called after each published batch, with the lock held. The runner of the query sets it."""
        self._context, self._outputs, self._prepared = context, outputs, prepared
        self._stateful = stateful
        self._strict = strict
        self._waits = waits
        self._awaits_since = -1, 0.0
        """(the last batch that waited for its files, time of ``time.monotonic`` when the wait began)."""
        self._pending: Prepared | None = None
        self._input_of_batches: dict[int, tuple[int, int]] = {}
        self.read_files = ReadFiles()
        self._reading: tuple[int, Mapping[str, Sequence[FileStatus]]] = -1, {}
        """(the current batch, source → the files that the batch reads)."""
        self.being_read: tuple[str, ...] = ()
        """Normal paths of the files that the current or last batch reads."""

    @property
    def lock(self) -> threading.RLock:
        return self.publication.lock

    @property
    def log(self) -> SubtaskLog:
        return self.publication.log

    def recover(self, records: Iterable[Prepared | None]) -> None:
        """Restore from the log, then publish a batch that Spark has committed and no attempt has published (R1).

        The record may be from an earlier attempt, because the previous one may have died after it copied the commit.

        Args:
            records: the last prepared record of each earlier attempt, newest first.

        Raises PreparedLostError.
        """
        with self.lock:
            commit = self.folder.newest_commit()
            self.publication.restore()
            if commit is None or commit <= self.publication.last_batch() or self.folder.is_repartition(commit):
                return
            prepared = next((record for record in records if record is not None and record.batch_id == commit), None)
            if prepared is None:
                uri = f"{self._prepared.uri}/<attempt>.json"
                raise PreparedLostError(uri=uri, problem=f"of batch {commit} is gone")
            self._pending = prepared
            self.finish_committed()

    def check_fenced(self) -> None:
        """Raise FencedError or LogFencedError if the attempt is fenced (R8)."""
        self._context.check_fenced()

    def stage(self, frame: DataFrame, batch_id: int, is_over: Callable[[], bool], *, only_final: bool = False) -> None:
        """Stage the batch and write its prepared record. The previous batch must be published.

        Spark's thread calls this without the lock, because staging takes as long as the batch.

        Args:
            is_over: returns True if the run is over.
            only_final: True if only the last batch of the query is published.

        Raises FencedError or LogFencedError before Spark can commit the batch (R8).
        """
        self._check_planned(batch_id, is_over)
        if only_final and self.folder.planned_watermark(batch_id) != MAX_WATERMARK:
            prepared = self._outputs.keep_state_of(frame, batch_id, is_over)
        else:
            prepared = self._outputs.stage(frame, batch_id, is_over)
        if self._stateful:
            prepared = replace(prepared, times=self._times(), late_rows=self._late_rows())
        self._prepared.write(prepared)
        with self.lock:
            self._pending = prepared
        self._context.check_fenced()

    @property
    def is_pending(self) -> bool:
        """True if a staged batch is not published."""
        return self._pending is not None

    def times(self) -> TimesByInput:
        """Return the event times of all rows so far, those of the staged batch included."""
        with self.lock:
            staged = {} if self._pending is None else self._pending.times
            return combined(self.publication.times, staged)

    def finish_committed(self) -> None:
        """Publish the staged batch if Spark has committed it. Any thread may call this."""
        with self.lock:
            prepared = self._pending
            if prepared is None or not self.folder.is_committed(prepared.batch_id):
                return
            number = prepared.batch_id
            offsets, watermark = self.folder.offsets(number), self._watermark(number)
            batch = replace(prepared.batch(), offsets=offsets, watermark=watermark)
            self.publication.publish(batch, follows=self._follows(number))
            self._pending = None
            batch_id, read = self._reading
            for uid, files in read.items() if batch_id == number else ():
                self.read_files.add(uid, files, time.monotonic(), time.time())
            self.published.notify_all()
            self.after_publish()

    def _late_rows(self) -> int:
        """Return the number of late rows of the current batch.

        Raises UnfitInputError if a source must fail at late rows.
        """
        late = late_rows_of_batch(self._context.run.spark, self.vertex.uid)
        if late and self._strict:
            raise UnfitInputError(
                "the query of vertex {vertex!r} dropped late rows ({rows}), and source {source!r} has "
                "late_rows='fail'. Spark counts rows after it has aggregated them within a task, so there may be more "
                "input rows. Nothing of the micro-batch was released. To resume without these rows, set "
                "late_rows='warn' and run with --resume-failed. To include them, run the job under another job id "
                "with a longer delay in watermark=(column, delay)",
                vertex=self.vertex.uid,
                rows=late,
                source=min(self._strict.values()),
            )
        return late

    def _times(self) -> dict[str, SourceTimes]:
        """Return input → event times of the current batch.

        Raises UnfitInputError if a source must fail at unusable event times.
        """
        times = source_times_of_batch(self._context.run.spark, self.vertex.uid)
        for uid in times.keys() & self._strict.keys():
            if times[uid].unfit:
                raise unfit_event_time(self.vertex.uid, self._strict[uid], times[uid])
        return times

    def _follows(self, batch_id: int) -> int:
        """Return the query's last batch before ``batch_id``. Read the folder only if batch_id - 1 is unpublished."""
        previous = batch_id - 1
        return previous if previous <= self.publication.last_batch() else self.folder.previous_batch(batch_id)

    def _watermark(self, batch_id: int) -> int | None:
        """Return the watermark of a batch in epoch milliseconds; None if there is none.

        For a query with state it is the watermark with which the batch was planned, because the batch closes windows by
        it. For any other query it is the watermark of the next batch.
        """
        if self._stateful:
            return self.folder.planned_watermark(batch_id) or None
        return self.folder.watermark_after(batch_id)

    def _check_planned(self, batch_id: int, is_over: Callable[[], bool]) -> None:
        """Refuse planned files that are missing, damaged or unfit, because Spark silently skips vanished files.

        This may wait until files have settled. ``is_over`` ends the wait. Raises the errors of the checks.
        """
        with self.lock:
            uris = self.inputs.planned(self.folder.offsets(batch_id))
        if uris:
            refuse_unreadable_names(uris)
            planned = {uid: [*map(normal_path, files)] for uid, files in uris.items()}
            self.being_read = tuple(file for uid in sorted(planned) for file in planned[uid])
            self._refuse_unfit_files()
            files_read = files_of_batch(self._context.run.spark, self.vertex.uid)
            read = refuse_other_files(self.vertex.uid, uris, files_read)
            self.inputs.refuse_damaged(planned)
            for uid in self._waits & read.keys():
                self._await_settled(batch_id, uid, read[uid], is_over)
            self._reading = batch_id, {uid: of_it for uid, of_it in read.items() if uid in self.vertex.sources}
        if self._context.run.measures:
            files = max(map(len, uris.values()), default=0)
            size = largest_of_batch(self._context.run.spark, self.vertex.uid) if files else 0
            with self.lock:
                self._input_of_batches = {
                    batch_id - 1: self._input_of_batches.get(batch_id - 1, (0, 0)),
                    batch_id: (files, size),
                }

    def _await_settled(self, batch_id: int, uid: str, files: Sequence[FileStatus], is_over: Callable[[], bool]) -> None:
        """Wait until the files have not changed for some seconds. A restarted batch waits less, as it waited before.

        Raises FilesSettledError.
        """
        if self._awaits_since[0] != batch_id:
            self._awaits_since = batch_id, time.monotonic()
        waited = time.monotonic() - self._awaits_since[1]
        report = functools.partial(self._report_awaited, uid)
        refuse_unsettled(self._context.run.spark, self.vertex.uid, files, is_over, report, waited=waited)

    def _report_awaited(self, uid: str, file: FileStatus, seconds: float) -> None:
        self.publication.post(FileAwaited(*self.publication.task_id, uid, shown_path(file.path), seconds))

    def _refuse_unfit_files(self) -> None:
        """Refuse files that Spark would misread.

        Raises EmptyFileError, UnreadableFileError, UnfitInputError.
        """
        spark, vertex = self._context.run.spark, self.vertex.uid
        if self.vertex.sources:
            refuse_unfit_files(spark, vertex, execution_of_batch(spark, vertex).logical())

    def input_of_batch(self, batch_id: int) -> tuple[int, int]:
        """Return the maximum (files, bytes) that the batch reads from one input; (0, 0) if it was not measured."""
        with self.lock:
            return self._input_of_batches.get(batch_id, (0, 0))
