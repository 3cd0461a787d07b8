"""The sinks of a job, made of what its journal has recorded of them: for who has the job's id and not its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.sinks.file_sink import FileSink
from airflow_provider_ckpt.sinks.sink import BoundSink, Sink, SinkContext
from airflow_provider_ckpt.storage.location import Location


def recorded_sinks(definition: JobDefinition, job_id: str, root: Location) -> dict[str, BoundSink]:
    """By uid, those of which enough is recorded to clean up in their targets: file sinks, reached with the options of
    ``root``. Options of a sink's own are not recorded, as they may be secrets. No name from the journal is imported."""
    found = {}
    for uid, sink in _sinks(definition):
        found[uid] = sink.bind(SinkContext(job_id, uid, root.options))
    return found


def _sinks(definition: JobDefinition) -> Iterator[tuple[str, Sink]]:
    for uid, recorded in definition.sinks.items():
        target: Mapping[str, Any] = recorded.target
        path = target.get("path")
        if target.get("type") == f"{FileSink.__module__}.{FileSink.__qualname__}" and isinstance(path, str):
            yield uid, FileSink(path)
