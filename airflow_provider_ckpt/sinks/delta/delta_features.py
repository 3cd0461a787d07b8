"""The features of Delta tables that this sink does not support. No I/O."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from airflow_provider_ckpt.sinks.lake.intents import Change

_KNOWN = {"appendOnly", "invariants", "timestampNtz", "changeDataFeed"}
"""Table features that are harmless, or whose use :func:`refusal` sees in the table's configuration and schema."""
_RETENTION = "delta.setTransactionRetentionDuration"
_NEWEST_WRITER = 7


def refusal(
    writer: int, features: Collection[str], configuration: Mapping[str, Any], schema_json: str, change: Change
) -> str | None:
    """Return why the table does not allow a commit of files that Spark wrote; None if it does."""
    if writer > _NEWEST_WRITER:
        return f"it demands writers of version {writer}, and this one knows {_NEWEST_WRITER}"
    if unknown := sorted(set(features) - _KNOWN):
        return f"it has the table feature {unknown[0]!r}, which this sink does not write"
    settings = {name: str(value) for name, value in configuration.items() if value is not None}
    return _settings_refusal(settings, change) or _fields_refusal(json.loads(schema_json)["fields"])


def _settings_refusal(settings: Mapping[str, str], change: Change) -> str | None:
    if _RETENTION in settings:
        return f"its property {_RETENTION} makes it forget which releases it holds; they would be repeated. Remove it"
    if settings.get("delta.columnMapping.mode", "none") != "none":
        return "it maps column names (delta.columnMapping.mode), and files of Spark have the plain ones"
    for name in sorted(settings):
        if name.startswith("delta.constraints."):
            return f"it has a CHECK constraint ({name}), which is not checked for files that Spark wrote"
    if change != "append":
        if _is_on(settings, "delta.appendOnly"):
            return "it is append-only (delta.appendOnly), and the sink's mode removes rows"
        if _is_on(settings, "delta.enableChangeDataFeed"):
            return "it has a change data feed, which would not show the rows that the sink's mode removes"
    return None


def _is_on(settings: Mapping[str, str], name: str) -> bool:
    return settings.get(name, "false").lower() == "true"


def _fields_refusal(fields: Collection[Mapping[str, Any]]) -> str | None:
    for name, metadata in _metadata(fields):
        for key in sorted(metadata):
            if key == "delta.generationExpression":
                return f"column {name!r} is generated, and its values are not computed for files that Spark wrote"
            if key == "delta.invariants":
                return f"column {name!r} has an invariant, which is not checked for files that Spark wrote"
            if key.startswith("delta.") or key in ("__CHAR_VARCHAR_TYPE_STRING", "CURRENT_DEFAULT"):
                return f"column {name!r} has the property {key}, which this sink does not keep"
    return None


def _metadata(fields: Collection[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for field in fields:
        yield field["name"], field.get("metadata") or {}
        for struct in _structs(field["type"]):
            yield from _metadata(struct["fields"])


def _structs(kind: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(kind, Mapping):
        return
    if kind["type"] == "struct":
        yield kind
    for key in ("elementType", "keyType", "valueType"):
        yield from _structs(kind.get(key))
