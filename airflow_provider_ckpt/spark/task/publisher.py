"""Publishes the micro-batches of one vertex: what Spark committed becomes an entry of the subtask's log (R1).

A micro-batch is published in this order:

1. ``foreach_batch`` stages outputs under fresh names and writes the *prepared* record;
2. Spark commits the batch (``commits/<b>``);
3. ``publish_committed`` appends the one entry that makes the batch count. It runs after the query's progress
   event, and at the latest before the next batch stages anything.

Before and after a batch is staged the attempt looks whether the job is still its own (R8). What is appended, and in
which order, is :class:`GatedPublication`'s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from pyspark.sql import DataFrame

from airflow_provider_ckpt.errors import OvertakenError
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.batch_files import files_of_batch, refuse_other_files, refuse_unreadable_names
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.errors import PreparedLostError
from airflow_provider_ckpt.spark.task.outputs import Outputs
from airflow_provider_ckpt.spark.task.prepared_store import Prepared, PreparedStore
from airflow_provider_ckpt.sparkfiles.seen_files import normal_path
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.task.gated_publication import GatedPublication
from airflow_provider_ckpt.task.inputs import Inputs

_STOPPED_WITHIN = 10.0
"""Seconds that a batch of an overtaken driver waits for its end, which takes the driver's loop a look around."""
_POLL = 0.02


class Publisher:
    """Of one attempt of one subtask. ``prepared``: where it notes what it has staged; ``stateful``: whether its query
    keeps state."""

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
    ) -> None:
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
        self.published = threading.Condition(self.lock)
        self.failure: BaseException | None = None
        """What ``foreach_batch`` raised; Spark tells it only wrapped."""
        self.is_stopping = False
        """The query is being stopped by us: what a batch fails with from here on is an interruption."""
        self.after_publish: Callable[[], None] = lambda: None
        """Called, with the lock held, for each batch that was published."""
        self._context, self._outputs, self._prepared = context, outputs, prepared
        self._stateful = stateful
        self._pending: Prepared | None = None

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
            if commit is None or commit <= self.publication.last_batch():
                return
            prepared = next((one for one in before if one is not None and one.batch_id == commit), None)
            if prepared is None:
                uri = f"{self._prepared.uri}/<attempt>.json"
                raise PreparedLostError(uri=uri, problem=f"of batch {commit} is gone")
            self._pending = prepared
            self.publish_committed()

    def foreach_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Spark calls it, in its own thread."""
        try:
            self._context.check_fenced()
            self.publish_committed()
            self._check_planned(batch_id)
            prepared = self._outputs.stage(frame, batch_id)
            self._prepared.write(prepared)
            with self.lock:
                self._pending = prepared
            self._context.check_fenced()
        except BaseException as error:
            self.failure = error
            if isinstance(error, OvertakenError):
                self._await_stop(error)
            if self.is_stopping:
                # Spark knows an interruption by its name in the message, and overflows the stack on a long one
                raise RuntimeError("java.lang.InterruptedException: the query was stopped in a batch") from None
            raise

    def _await_stop(self, error: OvertakenError) -> None:
        """The driver says in one line who has the job, and stops the query. An error that comes out of a batch before
        is logged by Spark, with its stack traces and ours."""
        report_crash(self._context.run, self.subtask, self.attempt, error)
        until = time.monotonic() + _STOPPED_WITHIN
        while not self.is_stopping and time.monotonic() < until:
            time.sleep(_POLL)

    def publish_committed(self) -> None:
        """Append the entry of the prepared batch if Spark has committed it."""
        with self.lock:
            prepared = self._pending
            if prepared is None or not self.folder.is_committed(prepared.batch_id):
                return
            self.publication.publish_batch(
                prepared.batch_id,
                self.folder.offsets(prepared.batch_id),
                files=prepared.files,
                handles=prepared.handles,
                watermark=self._watermark(prepared.batch_id),
            )
            self._pending = None
            self.published.notify_all()
            self.after_publish()

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
