"""The definition of a job as it is now, from what its user wrote."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.sink_operator import SinkOperator
from airflow_provider_ckpt.model.definition import SinkDefinition, SourceDefinition

SELECTING = frozenset({"pathglobfilter", "recursivefilelookup", "basepath", "subscribe", "subscribepattern", "assign"})
"""Options of a reader that decide which files, or topics, it reads, in lower case. The others decide how a file is
parsed, or may hold secrets: they are not recorded."""


def sink_definitions(sinks: tuple[SinkOperator, ...]) -> dict[str, SinkDefinition]:
    return {one.uid: SinkDefinition(one.release, dict(one.sink.definition()), one.gate is not None) for one in sinks}


def source_definition(operator: Operator) -> SourceDefinition:
    """Without what its function reads."""
    mark, splits = operator.watermark, operator.splits
    parallelism = None if splits is None else splits.parallelism
    watermark = None if mark is None else (mark.column, mark.delay)
    return SourceDefinition(operator.bounded, watermark, in_order=operator.in_order, parallelism=parallelism)


def selecting(options: Mapping[str, str]) -> dict[str, str]:
    """The options that decide which files, or topics, are read, by lower-case name."""
    return {key.lower(): value for key, value in sorted(options.items()) if key.lower() in SELECTING}


def plain_path(path: str) -> str:
    """One spelling for a folder: without ``file://`` and slashes at the end."""
    for prefix in ("file://", "file:"):
        if path.startswith(prefix):
            path = path[len(prefix) :]
            break
    return path.rstrip("/") or "/"
