"""The context that all tasks of one driver or worker share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from airflow_provider_ckpt.coordinator.protocol.reports import TaskReport
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.job.reconfigured import Logic
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.spark.task.executors import Executors
from airflow_provider_ckpt.storage.storage import Storage


class _NoLoader:
    def __call__(self, reference: str, digest: str | None = None) -> Mapping[str, Operator]:
        raise AssertionError(f"there is no way to read {reference} here")

    def read(self, reference: str) -> str:
        raise AssertionError(f"there is no way to read {reference} here")


@dataclass(frozen=True)
class RunContext:
    """The context that all tasks of one driver or worker share.

    Attributes:
        graph: the graph at the start of the epoch. The plan of a task has the changes since then.
        post: puts a report into the JobMaster's inbox. Any thread may call it.
        check_fenced: raises if a later epoch has claimed the job (R8).
        supervised: the supervisor's number of this start; None if no supervisor counts the starts of this worker (W14).
        logic: reads functions that a request assigns during this run.
        declared: the operators without functions that requests have assigned; None if ``job`` has the same operators.
        measures: True if a controller needs measurements of every micro-batch.
        in_master_process: True if the JobMaster runs in this process, so that a report costs no write.
        executors: changes the number of executors; None if the number never changes.
        topics: Kafka source → topic → the topic's id when the job was planned.
        check_declared: raises if a worker's file has other code for the given operators than the file of the job.
    """

    spark: SparkSession
    storage: Storage
    job: Job
    job_id: str
    graph: JobGraph
    options: RunOptions
    epoch: int
    post: Callable[[TaskReport], None] = field(repr=False)
    check_fenced: Callable[[], None] = field(repr=False)
    supervised: SupervisedTry | None = None
    logic: Logic = field(default_factory=_NoLoader)
    declared: Mapping[str, Operator] | None = None
    measures: bool = False
    in_master_process: bool = False
    executors: Executors | None = None
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    forgotten_files: Collection[str] = ()
    """Files that the user no longer wants to read, although they are in a frozen list."""
    known_changed: Collection[str] = frozenset()
    """Files that have changed after they were read, according to the journal."""
    state_partitions: Mapping[str, int] = field(default_factory=dict)
    """Vertex with state → the number of its state partitions, unless a setting changes the number."""
    check_declared: Callable[[Collection[str]], None] = field(default=lambda operators: None, repr=False)

    def state_partitions_of(self, vertex: str, settings: VertexSettings) -> int | None:
        """Return the number of state partitions with which a query starts; None if it has no state."""
        return settings.state_partitions or self.state_partitions.get(vertex)

    @property
    def operators(self) -> Mapping[str, Operator]:
        return self.job.operators if self.declared is None else self.declared
