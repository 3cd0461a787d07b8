"""Publishes the micro-batches of one vertex: what Spark committed becomes an entry of the subtask's log (R1).

A micro-batch is published in this order:

1. ``stage`` stages outputs under fresh names and writes the *prepared* record;
2. Spark commits the batch (``commits/<b>``);
3. ``publish_committed`` appends the one entry that makes the batch count. It runs after the query's progress
   event, and at the latest before the next batch stages anything.

Before and after a batch is staged the attempt looks whether the job is still its own (R8). What is appended, and in
which order, is :class:`GatedPublication`'s; when, and how the query ends, is :class:`RunningQuery`'s.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace

from pyspark.sql import DataFrame

from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.watermark import MAX_WATERMARK
from airflow_provider_ckpt.partitions.errors import PreparedLostError
from airflow_provider_ckpt.partitions.prepared_store import Prepared, PreparedStore
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.batch_files import (
    files_of_batch,
    largest_of_batch,
    refuse_other_files,
    refuse_unreadable_names,
)
from airflow_provider_ckpt.spark.task.errors import LateRowsError
from airflow_provider_ckpt.spark.task.late_rows import late_rows_of_batch
from airflow_provider_ckpt.spark.task.outputs import Outputs
from airflow_provider_ckpt.sparkfiles.seen_files import normal_path
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.task.gated_publication import GatedPublication
from airflow_provider_ckpt.task.inputs import Inputs


class Publisher:
    """Of one attempt of one subtask. ``prepared``: where it notes what it has staged; ``stateful``: whether its query
    keeps state. Which batch is staged and not published is told by nobody else: ``recover`` says so when the attempt is
    made, ``stage`` in Spark's thread, and any thread publishes it, under ``lock``."""

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
        refuses_late_rows: str | None = None,
    ) -> None:
        """``refuses_late_rows``: a source whose rows must not be dropped as late (``late_rows="fail"``)."""
        self.vertex, self.subtask, self.attempt = vertex, context.subtask, context.attempt
        self.folder = folder
        self.publication = GatedPublication(
            context.log,
            context.task_id,
            inputs,
            plan=plan,
            tell=context.run.post,
            notify=context.notify_consumers,
        )
        self._context, self._outputs, self._prepared = context, outputs, prepared
        self._stateful = stateful
        self._refuses_late_rows = refuses_late_rows
        self._pending: Prepared | None = None
        self._taken: dict[int, tuple[int, int]] = {}

    @property
    def lock(self) -> threading.RLock:
        return self.publication.lock

    @property
    def log(self) -> SubtaskLog:
        return self.publication.log

    @property
    def inputs(self) -> Inputs:
        return self.publication.inputs

    def recover(self, before: Iterable[Prepared | None]) -> None:
        """Publish the batch that Spark committed but the attempt before did not (R1); catch up with the logs.

        ``before``: what each earlier attempt prepared last, newest first. It need not be the last attempt that
        prepared the batch: one may have died after it had copied the commit, and before it published. Raises
        PreparedLostError.
        """
        with self.lock:
            commit = self.folder.newest_commit()
            self.publication.resume()
            if commit is None or commit <= self.publication.last_batch() or self.folder.is_cut_anew(commit):
                return
            prepared = next((one for one in before if one is not None and one.batch_id == commit), None)
            if prepared is None:
                uri = f"{self._prepared.uri}/<attempt>.json"
                raise PreparedLostError(uri=uri, problem=f"of batch {commit} is gone")
            self._pending = prepared
            self.publish_committed()

    def check_fenced(self) -> None:
        """Before a batch is looked at. Raises FencedError or LogFencedError (R8)."""
        self._context.check_fenced()

    def stage(self, frame: DataFrame, batch_id: int, is_over: Callable[[], bool], *, only_final: bool = False) -> None:
        """Stage the batch and prepare it; the one before it is published. Spark's thread, without the lock: it takes as
        long as the batch does. ``only_final``: of the query only the last batch is published. Raises FencedError or
        LogFencedError before Spark can commit it (R8)."""
        self._check_planned(batch_id)
        if only_final and self.folder.planned_watermark(batch_id) != MAX_WATERMARK:
            prepared = self._outputs.keep_state_of(frame, batch_id)
        else:
            prepared = self._outputs.stage(frame, batch_id, is_over)
        if self._stateful:
            prepared = replace(prepared, late_rows=self._late_rows())
        self._prepared.write(prepared)
        with self.lock:
            self._pending = prepared
        self._context.check_fenced()

    def publish_committed(self) -> bool:
        """Append the entry of the prepared batch if Spark has committed it; returns whether it was. Any thread."""
        with self.lock:
            prepared = self._pending
            if prepared is None or not self.folder.is_committed(prepared.batch_id):
                return False
            self.publication.publish_batch(
                prepared.batch_id,
                self.folder.offsets(prepared.batch_id),
                files=prepared.files,
                handles=prepared.handles,
                watermark=self._watermark(prepared.batch_id),
                rows=prepared.rows,
                late_rows=prepared.late_rows,
                follows=self._follows(prepared.batch_id),
            )
            self._pending = None
            return True

    def _late_rows(self) -> int:
        """Raises LateRowsError."""
        late = late_rows_of_batch(self._context.run.spark, self.vertex.uid)
        if late and self._refuses_late_rows is not None:
            raise LateRowsError(vertex=self.vertex.uid, rows=late, source=self._refuses_late_rows)
        return late

    def _follows(self, batch_id: int) -> int:
        """The folder is asked only if it is not the batch that is published last: each look is a few requests."""
        before = batch_id - 1
        return before if before <= self.publication.last_batch() else self.folder.follows(batch_id)

    def _watermark(self, batch_id: int) -> int | None:
        """Windows are closed by the batch that is planned with the watermark, which the one before it has come to."""
        if self._stateful:
            return self.folder.planned_watermark(batch_id) or None
        return self.folder.watermark_after(batch_id)

    def _check_planned(self, batch_id: int) -> None:
        """What was planned must be there: Spark leaves out files that are gone, and says nothing."""
        with self.lock:
            uris = self.inputs.planned(self.folder.offsets(batch_id))
        if uris:
            refuse_unreadable_names(uris)
            planned = {uid: [*map(normal_path, files)] for uid, files in uris.items()}
            refuse_other_files(self.vertex.uid, planned, files_of_batch(self._context.run.spark, self.vertex.uid))
            self.inputs.refuse_damaged(planned)
        if self._context.run.measures:
            files = max(map(len, uris.values()), default=0)
            size = largest_of_batch(self._context.run.spark, self.vertex.uid) if files else 0
            with self.lock:
                self._taken = {batch_id - 1: self._taken.get(batch_id - 1, (0, 0)), batch_id: (files, size)}

    def taken(self, batch_id: int) -> tuple[int, int]:
        """Files and bytes of the input that gave most of them to a batch, of the last two; 0 if nobody measures."""
        with self.lock:
            return self._taken.get(batch_id, (0, 0))
