"""The sinks of a job, made from its journal, for a process that has the job's id but not its Python file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.job.sink_operator import SinkOperator
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.sink import BoundSink, Sink, SinkContext
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.nesting import in_one_store

_TYPE = f"{FileSink.__module__}.{FileSink.__qualname__}"
_OPTION = "option."


@dataclass(frozen=True)
class RecordedSink:
    """A sink of a job as the journal describes it."""

    uid: str
    sink: Sink
    release: str
    gate: None = None
    """Always None, because the journal does not record enough of a gate to call it."""
    transaction: None = None
    """Always None, because folders have no transactions."""


@dataclass(frozen=True)
class RecordedJob:
    """The part of a job that its journal records and a release needs."""

    sinks: tuple[RecordedSink, ...]
    controllers: tuple[()] = ()


def recorded_sinks(definition: JobDefinition, job_id: str, root: Location) -> dict[str, BoundSink]:
    """Return uid -> file sink of a job, bound for a clean-up of its target.

    The sinks use the options of ``root``. A sink's own options are not recorded, because they may be secrets. No module
    that the journal names is imported. Sinks in another store are omitted: a user who can write to the root could forge
    the journal, and must not direct the root's credentials elsewhere.
    """
    bound = {}
    for uid, sink in _folders(definition, root):
        bound[uid] = sink.bind(SinkContext(job_id, uid, root.options))
    return bound


def recorded_job(definition: JobDefinition, root: Location) -> RecordedJob:
    """Return a job with the sinks that can be released from their records.

    These are file sinks without a gate whose rebuilt definition equals the recorded one. They use the root's options.
    No module that the journal names is imported. Sinks in another store are omitted, as by :func:`recorded_sinks`.
    """
    sinks = []
    for uid, recorded in definition.sinks.items():
        sink = _file_sink(recorded.target)
        if sink is not None and not recorded.gated and in_one_store(sink.path, root.uri):
            sinks.append(RecordedSink(uid, sink, recorded.release))
    return RecordedJob(tuple(sinks))


def not_recorded(sinks: Iterable[SinkOperator]) -> list[str]:
    """Return the uids of the sinks that :func:`recorded_job` cannot release, because the journal records too little."""
    return [operator.uid for operator in sinks if not _is_recorded(operator)]


def _is_recorded(operator: SinkOperator) -> bool:
    return type(operator.sink) is FileSink and operator.sink.storage_options is None and operator.gate is None


def _file_sink(target: Mapping[str, Any]) -> FileSink | None:
    """Return the sink of a recorded target; None for another kind of sink or a setting unknown to this version."""
    if target.get("type") != _TYPE or not isinstance(target.get("path"), str):
        return None
    options = {name.removeprefix(_OPTION): value for name, value in target.items() if name.startswith(_OPTION)}
    if "compression" in target:
        options["compression"] = target["compression"]
    settings = {name: target[name] for name in ("format", "mode") if name in target}
    sink = FileSink(target["path"], partition_by=tuple(target.get("partition_by", ())), options=options, **settings)
    return sink if sink.definition() == target else None


def _folders(definition: JobDefinition, root: Location) -> Iterator[tuple[str, Sink]]:
    for uid, recorded in definition.sinks.items():
        path = recorded.target.get("path")
        if recorded.target.get("type") == _TYPE and isinstance(path, str) and in_one_store(path, root.uri):
            yield uid, FileSink(path)
