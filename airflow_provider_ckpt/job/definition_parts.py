"""The parts of a job's recorded definition that come from the user's code."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.sink_operator import SinkOperator
from airflow_provider_ckpt.model.definition import SinkDefinition, SourceDefinition

SELECTING = frozenset({"pathglobfilter", "recursivefilelookup", "basepath", "subscribe", "subscribepattern", "assign"})
"""Options of a reader that select its files or topics, in lower case.

Other options are not recorded, because they decide how a file is parsed or may contain secrets.
"""


def sink_definitions(sinks: tuple[SinkOperator, ...]) -> dict[str, SinkDefinition]:
    return {
        sink.uid: SinkDefinition(sink.release, dict(sink.sink.definition()), sink.gate is not None) for sink in sinks
    }


def source_definition(operator: Operator) -> SourceDefinition:
    """Return the definition of a source without format, paths and topics.

    Only a call of the source's function reveals these.
    """
    mark, splits = operator.watermark, operator.splits
    parallelism = None if splits is None else splits.parallelism
    watermark = None if mark is None else (mark.column, mark.delay)
    return SourceDefinition(operator.bounded, watermark, in_order=operator.in_order, parallelism=parallelism)


def selection_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return name in lower case -> value, for the options that select files or topics."""
    return {key.lower(): value for key, value in sorted(options.items()) if key.lower() in SELECTING}


def plain_path(path: str) -> str:
    """Return the path of a folder without ``file://`` and trailing slashes, so that each folder has one spelling."""
    for prefix in ("file://", "file:"):
        if path.startswith(prefix):
            path = path[len(prefix) :]
            break
    return path.rstrip("/") or "/"
