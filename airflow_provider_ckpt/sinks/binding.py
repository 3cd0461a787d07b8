"""Functions that bind the sinks of a job and list their folders."""

from __future__ import annotations

from airflow_provider_ckpt.job.sink_operator import HasSinks
from airflow_provider_ckpt.sinks.sink import BoundSink, SinkContext
from airflow_provider_ckpt.storage.location import Location


def bind_sinks(job: HasSinks, job_id: str, root: Location) -> dict[str, BoundSink]:
    """Bind each sink to the job's id, and return uid -> bound sink. Writes nothing."""
    return {operator.uid: operator.sink.bind(SinkContext(job_id, operator.uid, root.options)) for operator in job.sinks}


def output_folders(job: HasSinks, root: Location) -> dict[str, str]:
    """Return sink uid -> URI of the sink's folder, for display.

    A folder in a store with its own endpoint is omitted, because its URI alone would name a folder in another store.
    """
    folders = {operator.uid: operator.sink.spark_folders(root.options) for operator in job.sinks}
    return {
        uid: places[0].for_display() for uid, places in folders.items() if places and not places[0].has_own_endpoint
    }
