"""What the tasks of one driver share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from airflow_provider_ckpt.coordinator.reports import TaskReport
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.storage.storage import Storage


@dataclass(frozen=True)
class RunContext:
    """``storage`` is the root's. ``graph``: as the epoch began; a task's plan says what has changed since. ``post``
    hands a report to the JobMaster's inbox (any thread); ``check_fenced`` raises when a later epoch has claimed the job
    (R8). ``supervised``: of the process, if it is a worker's and somebody counts its tries (W14)."""

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
