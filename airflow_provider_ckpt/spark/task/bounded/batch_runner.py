"""The runner of a vertex in BATCH mode. It reads complete result partitions, so its output is final (windows included).

The log of a complete attempt has batch 0 and then the end of data. A vertex with such a log is not run again. Otherwise
the vertex runs again from its beginning, and the next ``Open`` voids the previous attempt (R23).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_provider_ckpt.coordinator.protocol.reports import TaskReport
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.model.channel import Channel, channels
from airflow_provider_ckpt.model.file_status import FileStatus
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId, TaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.spark.app.jvm_state import is_gone
from airflow_provider_ckpt.spark.plan.builder import QueryBuilder, SourceCalls
from airflow_provider_ckpt.spark.query.edge_schema import plain
from airflow_provider_ckpt.spark.query.sources.exchange_files import read_files
from airflow_provider_ckpt.spark.query.sources.file_index import index_of, statuses
from airflow_provider_ckpt.spark.query.sources.file_polls import listed
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.bounded.bounded_runner import BoundedRunner, publication_of
from airflow_provider_ckpt.spark.task.bounded.consumer_size import sized_for
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.outputs import Outputs
from airflow_provider_ckpt.spark.task.streaming.running_query import query_failed
from airflow_provider_ckpt.spark.task.streaming.source_watch import report_of
from airflow_provider_ckpt.storage.layout import partition_path
from airflow_provider_ckpt.subtasklog.errors import PartitionFilesDamagedError, ResultLostError
from airflow_provider_ckpt.subtasklog.log_reader import LogReader
from airflow_provider_ckpt.subtasklog.lost_entries import refuse_damaged
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.task.bounded_reading import BoundedReading
from airflow_provider_ckpt.task.read_files import ReadFiles

_POLL = 0.1


class BatchSources:
    """The status of the source files before they are read, to detect changes. ``frames``: source → its rows."""

    def __init__(self, frames: Mapping[str, DataFrame], reads: Mapping[str, SourceReads]) -> None:
        self._reads = {uid: read for uid, read in reads.items() if read.is_file and uid in frames}
        self._frames = {uid: frames[uid] for uid in self._reads}
        self._files = ReadFiles()
        for uid, frame in self._frames.items():
            self._files.add(uid, _files_of(frame), time.monotonic(), time.time())

    def compare(
        self,
        job: Job,
        task_id: TaskId,
        post: Callable[[TaskReport], None],
        is_over: Callable[[], bool],
    ) -> None:
        """Report files that have changed since the query was built. Compare recently written files some seconds later.

        Raises TransientError if the size of a file changed and its source has ``unfinished_files="fail"``.
        """
        until = self._files.settles_at(self._reads)
        while time.monotonic() < until and not is_over():
            time.sleep(_POLL)
        for uid, read in self._reads.items():
            changed = self._files.changed(uid, listed(self._frames[uid].sparkSession, read))
            if not changed:
                continue
            short = next((file for file in changed if file.size != file.read), None)
            if short is not None and job.operators[uid].on_unfinished == "fail":
                raise TransientError(
                    "source {source!r}: {file}. So it was still being written, or was replaced. Files of the source "
                    "that changed while they were read: {count}. Nothing was released; another try reads them again. "
                    "Have the producer write under a hidden name (.name or _name), and rename the file when it is "
                    "complete",
                    source=uid,
                    count=len(changed),
                    file=str(short),
                )
            post(report_of(task_id, uid, changed))


def _files_of(frame: DataFrame) -> Iterator[FileStatus]:
    plan: Any = frame._jdf.queryExecution().analyzed()
    leaves = plan.collectLeaves()
    for index in map(index_of, map(leaves.apply, range(leaves.size()))):
        if index is not None:
            yield from statuses(index)


class BatchRunner(BoundedRunner):
    """One attempt of one vertex in BATCH mode. It is deployed when its inputs are complete.

    Args:
        inputs: returns the log of a producer's subtask.
        produces_again: True if the next run would produce a lost input again. The loss then raises ResultLostError.
    """

    def __init__(
        self,
        context: AttemptContext,
        vertex: JobVertex,
        inputs: Callable[[SubtaskId], LogReader],
        outputs: Outputs,
        frozen: Mapping[str, FrozenEnd],
        schemas: Mapping[str, StructType],
        thread: Executor,
        *,
        produces_again: bool = True,
    ) -> None:
        self._edges = context.run.graph.inputs(vertex.uid)
        reads = [*vertex.sources, *(edge.uid for edge in self._edges)]
        super().__init__(context, vertex, outputs, BoundedReading(reads, publication_of(context)))
        self._thread = thread
        self._works = self._is_stopped = False
        self._produces_again = produces_again
        self._frozen, self._schemas = frozen, schemas
        self._log_of = inputs
        self._channels: tuple[Channel, ...] = ()
        self._inputs: dict[SubtaskId, LogReader] = {}
        self._sources = BatchSources({}, {})

    # ---- the driver's loop

    def deploy(self, plan: VertexPlan) -> None:
        self._thread.submit(self._guard, plan)

    def wait_for_batch(self, until: float) -> None:
        """Do nothing, because a stopped vertex always runs again from its beginning."""

    def stop(self) -> None:
        self._is_stopped = True
        if self._works and not is_gone():  # otherwise the running jobs belong to other tasks
            self._run.spark.sparkContext.cancelAllJobs()

    def close(self) -> None:
        """Do nothing, because the thread belongs to the driver."""

    # ---- its thread

    def _guard(self, plan: VertexPlan) -> None:
        failure: BaseException | None = None
        self._works = True
        try:
            self._read(plan)
        except BaseException as error:
            failure = error
        self._works = False  # before the report, because its receiver stops this task
        if failure is not None:
            report_crash(self._run, self.subtask, self.attempt, query_failed(self.vertex.uid, failure))

    def _read(self, plan: VertexPlan) -> None:
        """Read, stage and publish the only batch of the vertex, and then its end."""
        self._channels = channels(self._run.graph.rescaled(plan.parallelism), self.subtask)
        self._inputs = {channel.producer: self._log_of(channel.producer) for channel in self._channels}
        self._refuse_incomplete()
        if not self._reading.deploy(plan):
            return
        with sized_for(self._run.spark, sum(file.size for producer in self._inputs for file in self._files(producer))):
            frame = self._frame()
            self._reading.begin()
            prepared = self._staged(lambda: self._outputs.stage(frame, 0, lambda: self._is_stopped))
        self._sources.compare(self._run.job, self._context.task_id, self._run.post, lambda: self._is_stopped)
        positions = {channel.key: self._inputs[channel.producer].position for channel in self._channels}
        self._reading.publication.publish(replace(prepared.batch(), inputs=positions, ended=self.vertex.sources))
        self._reading.end()

    def _refuse_incomplete(self) -> None:
        """Refuse inputs without an end of data in their logs. The coordinator has only seen reports of the ends (R23).

        Raises TransientError.
        """
        producers = [channel.producer for channel in self._channels]
        missing = [name.vertex for name in producers if not self._inputs[name].has_ended]
        if missing:
            raise TransientError(
                "vertex {vertex!r} cannot start: {producers} did not reach the end of data",
                vertex=self.vertex.uid,
                producers=", ".join(missing),
            )

    def _frame(self) -> DataFrame:
        context = self._run
        calls = SourceCalls(context.spark, streaming=False, ends=self._frozen)
        builder = QueryBuilder(context.job.operators, self.vertex, self._edges, calls, self._edge_frame)
        built = builder.build()
        self._sources = BatchSources(builder.inputs, built.reads)
        return built.frame

    def _files(self, producer: SubtaskId) -> list[PartitionFile]:
        records = self._inputs[producer].records()
        return [file for _, record in records if isinstance(record, Batch) for file in record.files]

    def _edge_frame(self, uid: str, hold: bool) -> DataFrame:
        """Return the rows of the edge ``uid``. ``hold`` has no effect, because a batch job has no watermark."""
        context = self._run
        paths: list[str] = []
        of_edge = [channel for channel in self._channels if channel.edge.uid == uid]
        for producer in [channel.producer for channel in of_edge]:
            partition = partition_path(context.job_id, producer.vertex, producer.number)
            files = self._files(producer)
            try:
                refuse_damaged(context.storage, partition, files)
            except PartitionFilesDamagedError as error:
                if not self._produces_again:
                    raise
                raise ResultLostError(producer=producer, **error.data) from None
            paths += [context.storage.spark_uri(f"{partition}/{file.path}") for file in files]
        schema = plain(self._schemas[of_edge[0].edge.producer])
        if not paths:
            return context.spark.createDataFrame([], schema)
        return read_files(context.spark, schema, *paths)
