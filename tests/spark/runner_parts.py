"""Objects that the runner of a vertex needs, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.bounded.batch_runner import BatchRunner
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.streaming.micro_batches import MicroBatches
from airflow_provider_ckpt.spark.task.streaming.query_dry_run import QueryDryRuns
from airflow_provider_ckpt.spark.task.streaming.running_query import RunningQuery
from airflow_provider_ckpt.spark.task.streaming.streaming_runner import StreamingRunner
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.input_gate import InputGate
from airflow_provider_ckpt.subtasklog.prepared_store import Prepared, PreparedStore
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.vertex_inputs import Inputs
from tests.support.waiting import wait_until

GRAPH = JobGraph(
    (
        JobVertex("a", ("a",), ("a",), ("a",), (), bounded=True),
        JobVertex("v", ("v",), ("live",), (), ("out",), bounded=False),
    ),
    (JobEdge("a__v", "a", "v", "v"),),
)
V = GRAPH.vertices[1]
A0, V0 = GRAPH.subtasks
ATTEMPT = AttemptId(1, 0, "aaaaaaaa")
NOTHING: Any = None


@dataclass
class RunnerParts:
    """The objects that a runner of "v" needs.

    ``claimed``: a later driver owns the job. ``staged``: the staged batches. ``while_staging``: called during each
    stage. ``held``: of each query built, whether history holds event time.
    """

    storage: Storage
    claimed: bool = False
    staged: list[int] = field(default_factory=list)
    posted: list[Any] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)
    while_staging: Callable[[], None] = lambda: None
    thread: Executor = field(default_factory=lambda: ImmediateExecutor())

    def __post_init__(self) -> None:
        self.log = self.opened("v")
        self.logs = {A0: self.opened("a"), V0: self.log}
        self.folder = SparkFolder(self.storage, f"spark/{ATTEMPT}")

    def opened(self, name: str, attempt: AttemptId = ATTEMPT) -> SubtaskLog:
        log = SubtaskLog(self.storage, f"log-{name}")
        log.load()
        log.open(attempt)
        return log

    def take_log(self) -> None:
        self.opened("v", AttemptId(2, 0, "bbbbbbbb"))

    def take_job(self) -> None:
        self.claimed = True

    def check_fenced(self) -> None:
        if self.claimed:
            raise FencedError(job_id="job", epoch=2, attempt="t2", worker="there", own_epoch=1)

    def stage(self, frame: object, batch_id: int, is_over: Callable[[], bool] = lambda: False) -> Prepared:
        self.staged.append(batch_id)
        self.while_staging()
        return Prepared(ATTEMPT, batch_id, (), {})

    @property
    def context(self) -> RunContext:
        return RunContext(
            NOTHING,
            self.storage,
            NOTHING,
            "job",
            GRAPH,
            RunOptions("job.py:job", "/r", "job"),
            epoch=1,
            post=lambda message: self.posted.append(message),
            check_fenced=self.check_fenced,
        )

    @property
    def of_attempt(self) -> AttemptContext:
        return AttemptContext(self.context, V0, ATTEMPT, self.log)

    def micro_batches(self) -> MicroBatches:
        outputs: Any = self
        return MicroBatches(
            self.of_attempt,
            V,
            folder=self.folder,
            inputs=Inputs({}, {}, InputGate((), epoch=1), lambda uid: SeenFiles(self.storage, uid)),
            outputs=outputs,
            prepared=PreparedStore(self.storage, "prepared"),
            plan=VertexPlan(0, ()),
            stateful=False,
        )

    def query(self) -> RunningQuery:
        return RunningQuery(self.context, self.micro_batches())

    def batch_runner(self) -> BatchRunner:
        outputs: Any = self
        runner = BatchRunner(self.of_attempt, V, self.logs.__getitem__, outputs, {}, {}, self.thread)
        runner._frame = lambda: NOTHING  # type: ignore[method-assign]
        return runner

    def runner(self, build: Callable[[], object]) -> StreamingRunner:
        def built(dropped: object, *, hold: bool = True) -> object:
            self.held.append(hold)
            return build()

        builder: Any = SimpleNamespace(build=built)
        trials = QueryDryRuns(self.context, V, self.folder, f"{self.folder.path}/trial", reads_whole=False)
        return StreamingRunner(self.context, self.micro_batches(), lambda settings: builder, trials)

    def plan(self, batch: int) -> None:
        self.storage.create(f"{self.folder.path}/offsets/{batch}", b'v2\n{"batchWatermarkMs":0}')

    def commit(self, batch: int) -> None:
        self.storage.create(f"{self.folder.path}/commits/{batch}", b"v1\n{}")

    def batches(self) -> list[int]:
        return [record.batch_id for _, record in self.log.records() if isinstance(record, Batch)]

    def first_report(self) -> Any:
        return wait_until(lambda: self.posted, "a message")[0]


class ImmediateExecutor(Executor):
    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*args, **named))
        return future


def end_log(log: SubtaskLog) -> None:
    log.append_batch(Batch(0, {}))
    log.end_of_data("finish")
