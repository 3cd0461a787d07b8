"""BATCH mode: vertices run over complete partitions; the answer is final (windows included).

An attempt of a vertex counts under its end of data: batch 0, then the end, in its log. A vertex whose log has
the end is not run again; one without is run anew, and a new ``open`` voids what the attempt before left (R23).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_provider_ckpt.coordinator.failures import IO_EXCEPTION
from airflow_provider_ckpt.coordinator.reports import BarrierAcknowledged, BarrierDeclined
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.channel import channels
from airflow_provider_ckpt.model.graph import JobEdge, JobVertex
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.published_files import refuse_damaged
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.spark.query.builder import QueryBuilder, SourceCalls
from airflow_provider_ckpt.spark.query.edge_schema import plain
from airflow_provider_ckpt.spark.query.frozen import FrozenFiles
from airflow_provider_ckpt.spark.query.reader import SourceReads
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.errors import InputsIncompleteError
from airflow_provider_ckpt.spark.task.outputs import Outputs
from airflow_provider_ckpt.spark.task.running_query import query_failed
from airflow_provider_ckpt.storage.layout import partition_path
from airflow_provider_ckpt.task.actions import (
    Action,
    BuildQuery,
    EndData,
    EndPartition,
    RunQuery,
    Tell,
)
from airflow_provider_ckpt.task.machine import Seen, TaskMachine

_NOTHING = Seen(frozenset(), inputs_ended=True, batch_id=-1)


class BatchRunner:
    """One attempt of one vertex in BATCH mode; deployed when its inputs are complete. ``thread``: where it runs."""

    def __init__(
        self,
        context: RunContext,
        vertex: JobVertex,
        subtask: SubtaskId,
        attempt: AttemptId,
        logs: Mapping[str, SubtaskLog],
        outputs: Outputs,
        frozen: Mapping[str, FrozenFiles],
        schemas: Mapping[str, StructType],
        thread: Executor,
    ) -> None:
        self.query_id: str | None = None
        self._thread = thread
        self.vertex, self.subtask, self.attempt, self.log = vertex, subtask, attempt, logs[subtask]
        self._context, self._outputs = context, outputs
        self._frozen, self._schemas = frozen, schemas
        self._channels = channels(context.graph, subtask)
        self._inputs: Mapping[str, LogReader] = {one.producer: logs[one.producer] for one in self._channels}
        self._reads = frozenset([*vertex.sources, *(edge.uid for edge in self._edges())])
        self._machine = TaskMachine(self._reads)
        self._query: DataFrame

    def deploy(self, plan: VertexPlan) -> None:
        self._thread.submit(self._guard, plan)

    def _guard(self, plan: VertexPlan) -> None:
        try:
            self._refuse_incomplete()
            self._carry_out(self._machine.deploy(plan, self.log.state.end_of_data))
        except BaseException as error:
            report_crash(self._context, self.subtask, self.attempt, query_failed(self.vertex.uid, error))

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case BuildQuery():
                    self._query = self._frame()
                    self._carry_out(self._machine.planned(self._reads, runs_out=False, seen=_NOTHING))
                case RunQuery():
                    self._carry_out(self._machine.started(_NOTHING))
                    self._run(self._query)
                    self._carry_out(self._machine.advance(Seen(self._reads, True, 0)))
                case EndData(mode):
                    self.log.end_of_data(mode)
                    self._carry_out(self._machine.data_ended())
                case EndPartition():
                    self.log.end_of_partition()
                    self._carry_out(self._machine.partition_ended())
                case Tell(kind, fields):
                    self._post(kind, **fields)
                case _:
                    raise AssertionError(f"{action}: a vertex in BATCH mode reads all there is, and ends")

    def _refuse_incomplete(self) -> None:
        """R23: what the coordinator knows by reports, seen once more in the logs that are going to be read."""
        producers = [channel.producer for channel in self._channels]
        missing = [name.vertex for name in producers if not self._inputs[name].has_ended]
        if missing:
            raise InputsIncompleteError(vertex=self.vertex.uid, producers=", ".join(missing))

    def _run(self, frame: DataFrame) -> None:
        """The one batch of the vertex."""
        self._check_fenced()
        prepared = self._outputs.stage(frame, 0)
        self._check_fenced()
        self.log.publish(
            Batch(
                batch_id=0,
                offsets={},
                inputs={channel.key: self._inputs[channel.producer].position for channel in self._channels},
                files=prepared.files,
                handles={uid: dict(handle) for uid, handle in prepared.handles.items()},
                ended=self.vertex.sources,
            )
        )

    def trigger(self, checkpoint: int) -> None:
        try:
            snapshot = self.log.barrier(self._context.epoch, checkpoint)
        except TransientError as error:
            self._post(BarrierDeclined, checkpoint=checkpoint, reason=IO_EXCEPTION, detail=str(error))
            return
        self._post(BarrierAcknowledged, checkpoint=checkpoint, snapshot=snapshot)

    def finish(self) -> None:
        self._carry_out(self._machine.finish())

    def wait_for_batch(self, until: float) -> None:
        """Nothing: a vertex that is stopped is run anew as a whole, however far it came."""

    def stop(self) -> None:
        self._context.spark.sparkContext.cancelAllJobs()

    def late_files(self) -> set[str]:
        """None: a batch reads the frozen list and nothing else."""
        return set()

    def pull_inputs(self) -> None:
        """Nothing: a vertex starts when its inputs are complete."""

    def drain(self) -> None:
        """Nothing: all that a batch reads ends by itself."""

    def check(self) -> None:
        """Nothing: what it fails with is reported by its thread."""

    def close(self) -> None:
        """Nothing: the thread is not its own."""

    def on_progress(self) -> None:
        """Never called: Spark reports the progress of streaming queries."""

    def pause(self, reason: PauseReason) -> None:
        raise AssertionError(f"{reason}: a vertex in BATCH mode does not stand still")

    def resume(self, plan: VertexPlan) -> None:
        raise AssertionError(f"{plan}: a vertex in BATCH mode does not stand still")

    def _frame(self) -> DataFrame:
        context = self._context
        calls = SourceCalls(context.spark, streaming=False, frozen=self._frozen_files)
        builder = QueryBuilder(context.job, self.vertex, self._edges(), calls, self._edge_frame)
        return builder.build().frame

    def _frozen_files(self, uid: str, reads: SourceReads) -> list[str] | None:
        frozen = self._frozen.get(uid)
        return None if frozen is None else list(frozen.files)

    def _edge_frame(self, uid: str) -> DataFrame:
        context = self._context
        paths: list[str] = []
        of_edge = [channel for channel in self._channels if channel.edge.uid == uid]
        for producer in [channel.producer for channel in of_edge]:
            partition = partition_path(context.job_id, producer.vertex, producer.number)
            records = self._inputs[producer].records()
            files = [file for _, record in records if isinstance(record, Batch) for file in record.files]
            refuse_damaged(context.storage, partition, files)
            paths += [context.storage.spark_uri(f"{partition}/{file.path}") for file in files]
        schema = plain(self._schemas[of_edge[0].edge.producer])
        if not paths:
            return context.spark.createDataFrame([], schema)
        return context.spark.read.schema(schema).parquet(*paths)

    def _edges(self) -> tuple[JobEdge, ...]:
        return self._context.graph.inputs(self.vertex.uid)

    def _check_fenced(self) -> None:
        self._context.check_fenced()
        self.log.check_fenced()

    def _post(self, kind: Callable[..., object], **fields: Any) -> None:
        self._context.post(kind(epoch=self._context.epoch, subtask=self.subtask, attempt=self.attempt, **fields))
