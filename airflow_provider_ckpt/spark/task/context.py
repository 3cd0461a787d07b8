"""What the tasks of one driver share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from airflow_provider_ckpt.coordinator.reports import TaskReport
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.job.reconfigured import Logic
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.spark.task.executors import Executors
from airflow_provider_ckpt.storage.storage import Storage


class _NoOther:
    def __call__(self, reference: str, digest: str | None = None) -> Mapping[str, Operator]:
        raise AssertionError(f"nobody can read {reference} here")

    def read(self, reference: str) -> str:
        raise AssertionError(f"nobody can read {reference} here")


@dataclass(frozen=True)
class RunContext:
    """``storage`` is the root's. ``graph``: as the epoch began; a task's plan says what has changed since. ``post``
    hands a report to the JobMaster's inbox (any thread); ``check_fenced`` raises when a later epoch has claimed the job
    (R8). ``supervised``: of the process, if it is a worker's and somebody counts its tries (W14).
    ``job``: with what was changed of it before this run; ``declared``: its operators without that; ``logic``: reads the
    functions that it is given yet. ``measures``: somebody wants to know of every micro-batch how it went.
    ``is_beside_job_master``: in the same process, so that nothing is written to tell it something.
    ``check_declared``: refuses operators the functions of ``declared`` if those are not the job's (a worker's file may
    be another one); raises. ``executors``: None where nobody changes their number. ``topics``: of each Kafka source of
    the plan, name -> the id that the brokers gave it then."""

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
    logic: Logic = field(default_factory=_NoOther)
    declared: Mapping[str, Operator] | None = None
    measures: bool = False
    is_beside_job_master: bool = False
    executors: Executors | None = None
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    forgotten_files: Collection[str] = ()
    """Files that somebody gave up."""
    known_changed: Collection[str] = frozenset()
    """Files of which the journal says that they changed after they were read."""
    state_partitions: Mapping[str, int] = field(default_factory=dict)
    """Vertex that keeps state -> the number of partitions of its state, unless a setting changes it."""
    check_declared: Callable[[Collection[str]], None] = field(default=lambda operators: None, repr=False)

    def state_partitions_of(self, vertex: str, settings: VertexSettings) -> int | None:
        """Return the number of state partitions that a query starts with; None: it keeps no state."""
        return settings.state_partitions or self.state_partitions.get(vertex)

    @property
    def operators(self) -> Mapping[str, Operator]:
        """As the job declares them."""
        return self.job.operators if self.declared is None else self.declared
