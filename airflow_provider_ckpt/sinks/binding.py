"""The sinks of a job in a process that hosts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.sinks.sink import BoundSink, SinkContext


def bind_sinks(job: Job, job_id: str, storage_options: Mapping[str, Any]) -> dict[str, BoundSink]:
    """The sinks of the job by uid; nothing is written yet."""
    return {
        operator.uid: operator.sink.bind(SinkContext(job_id, operator.uid, storage_options)) for operator in job.sinks
    }
