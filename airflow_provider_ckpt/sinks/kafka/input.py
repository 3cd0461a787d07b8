"""The rows that a Kafka sink takes. Pure functions, no I/O."""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.sinks.errors import SinkInputError
from airflow_provider_ckpt.sinks.sink import SinkInput

COLUMNS = {"value": ("binary", "string"), "key": ("binary", "string"), "partition": ("integer",)}
_ADVICE = 'Select "value", and if wanted "key" and "partition": to_json(struct("*")) makes a value of all columns'


def check_kafka_input(given: SinkInput) -> None:
    """Refuse columns that are no parts of a record.

    Raises SinkInputError.
    """
    kinds = dict(given.columns)
    if "value" not in kinds:
        raise _refused(given, f"its input has no column 'value', but {', '.join(map(repr, kinds)) or 'none at all'}")
    for name, kind in given.columns:
        if name not in COLUMNS:
            raise _refused(given, f"its input has the column {name!r}, which is no part of a Kafka record")
        if kind not in COLUMNS[name]:
            raise _refused(given, f"column {name!r} is of type {_shown(kind)}, not {' or '.join(COLUMNS[name])}")
    if given.output_mode != "append" and "key" not in kinds:
        problem = f"in output mode {given.output_mode!r} rows replace earlier ones, and its input has no column 'key'"
        raise _refused(given, problem)


def _shown(kind: Any) -> Any:
    return kind["type"] if isinstance(kind, dict) else kind


def _refused(given: SinkInput, problem: str) -> SinkInputError:
    return SinkInputError(sink=given.uid, problem=problem, advice=_ADVICE)
