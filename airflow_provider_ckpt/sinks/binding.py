"""The sinks of a job in a process that hosts them."""

from __future__ import annotations

from airflow_provider_ckpt.job.sink_operator import HasSinks
from airflow_provider_ckpt.sinks.sink import BoundSink, SinkContext
from airflow_provider_ckpt.storage.location import Location


def bind_sinks(job: HasSinks, job_id: str, root: Location) -> dict[str, BoundSink]:
    """The sinks of the job by uid; nothing is written yet."""
    return {one.uid: one.sink.bind(SinkContext(job_id, one.uid, root.options)) for one in job.sinks}
