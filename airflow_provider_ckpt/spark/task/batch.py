"""BATCH mode: vertices run one after the other over complete partitions; the answer is final (windows included).

An attempt of a vertex counts under its end of data: batch 0, then the end, in its log. A vertex whose log has
the end is not run again; one without is run anew, and a new ``open`` voids what the attempt before left (R23).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_provider_ckpt.coordinator.failures import IO_EXCEPTION
from airflow_provider_ckpt.coordinator.messages import (
    BarrierAcknowledged,
    BarrierDeclined,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskRunning,
)
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.job.graph import Edge, Vertex
from airflow_provider_ckpt.partitions.published_files import refuse_damaged
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.spark.errors import InputsIncompleteError
from airflow_provider_ckpt.spark.query.builder import QueryBuilder, SourceCalls
from airflow_provider_ckpt.spark.query.edge_schema import plain
from airflow_provider_ckpt.spark.query.frozen import FrozenFiles
from airflow_provider_ckpt.spark.query.reader import SourceReads
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.outputs import Outputs
from airflow_provider_ckpt.spark.task.running_query import query_failed
from airflow_provider_ckpt.storage.layout import partition_path


class BatchRunner:
    """One attempt of one vertex in BATCH mode. ``thread`` runs one vertex at a time, in topological order."""

    def __init__(
        self,
        context: RunContext,
        vertex: Vertex,
        subtask: str,
        logs: Mapping[str, SubtaskLog],
        outputs: Outputs,
        frozen: Mapping[str, FrozenFiles],
        schemas: Mapping[str, StructType],
        thread: Executor,
    ) -> None:
        self.query_id: str | None = None
        self._thread = thread
        self.vertex, self.subtask, self.log = vertex, subtask, logs[subtask]
        self._context, self._logs, self._outputs = context, logs, outputs
        self._frozen, self._schemas = frozen, schemas

    def start(self) -> None:
        self._thread.submit(self._guard)

    def _guard(self) -> None:
        try:
            self._refuse_incomplete()
            self._run()
        except BaseException as error:
            report_crash(self._context, self.subtask, query_failed(self.vertex.uid, error))

    def _refuse_incomplete(self) -> None:
        """R23. A producer that failed has ended the job by now; one that did not must not leave it hanging here."""
        producers = [edge.producer for edge in self._edges()]
        missing = [uid for uid in producers if self._logs[f"{uid}/0"].state.end_of_data is None]
        if missing:
            raise InputsIncompleteError(vertex=self.vertex.uid, producers=", ".join(missing))

    def _run(self) -> None:
        """Run the vertex to its end of data."""
        if self.log.state.end_of_data is None:
            self._post(SubtaskRunning)
            self._check_fenced()
            prepared = self._outputs.stage(self._frame(), 0)
            self._check_fenced()
            self.log.publish(
                Batch(
                    batch_id=0,
                    offsets={},
                    inputs={edge.uid: self._logs[f"{edge.producer}/0"].position for edge in self._edges()},
                    files=prepared.files,
                    handles={uid: dict(handle) for uid, handle in prepared.handles.items()},
                    ended=self.vertex.sources,
                )
            )
            self.log.end_of_data("finish")
        self._post(SubtaskAtEndOfData, mode="finish")

    def trigger(self, checkpoint: int) -> None:
        try:
            snapshot = self.log.barrier(self._context.epoch, checkpoint)
        except TransientError as error:
            self._post(BarrierDeclined, checkpoint=checkpoint, reason=IO_EXCEPTION, detail=str(error))
            return
        self._post(BarrierAcknowledged, checkpoint=checkpoint, snapshot=snapshot)

    def finish(self) -> None:
        self.log.end_of_partition()
        self._post(SubtaskDone)

    def wait_for_batch(self, until: float) -> None:
        """Nothing: a vertex that is stopped is run anew as a whole, however far it came."""

    def stop(self) -> None:
        self._context.spark.sparkContext.cancelAllJobs()

    def late_files(self) -> set[str]:
        """None: a batch reads the frozen list and nothing else."""
        return set()

    def pull_inputs(self) -> None:
        """Nothing: a vertex starts when its inputs are complete."""

    check = close = on_progress = drain = lambda self: None  # a batch neither drains nor makes progress in between

    def drop(self, uid: str) -> None:
        raise AssertionError(f"{uid}: sources are dropped from running queries only")

    resume = drop

    def _frame(self) -> DataFrame:
        context = self._context
        calls = SourceCalls(context.spark, streaming=False, frozen=self._frozen_files)
        builder = QueryBuilder(context.job, self.vertex, self._edges(), calls, self._edge_frame)
        return builder.build().frame

    def _frozen_files(self, uid: str, reads: SourceReads) -> list[str] | None:
        frozen = self._frozen.get(uid)
        return None if frozen is None else list(frozen.files)

    def _edge_frame(self, uid: str) -> DataFrame:
        edge = next(edge for edge in self._edges() if edge.uid == uid)
        context, log = self._context, self._logs[f"{edge.producer}/0"]
        partition = partition_path(context.job_id, edge.producer, 0)
        files = [file for _, record in log.records() if isinstance(record, Batch) for file in record.files]
        refuse_damaged(context.storage, partition, files)
        paths = [context.storage.spark_uri(f"{partition}/{file.path}") for file in files]
        schema = plain(self._schemas[edge.producer])
        if not paths:
            return context.spark.createDataFrame([], schema)
        return context.spark.read.schema(schema).parquet(*paths)

    def _edges(self) -> tuple[Edge, ...]:
        return self._context.graph.inputs(self.vertex.uid)

    def _check_fenced(self) -> None:
        self._context.check_fenced()
        self.log.check_fenced()

    def _post(self, kind: Callable[..., object], **fields: Any) -> None:
        context = self._context
        context.post(kind(epoch=context.epoch, subtask=self.subtask, attempt=context.attempt, **fields))
