"""Conversion of a subtask log's records to readable JSON and back. Golden copies: ``tests/golden/subtask-log-v1``."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.model.errors import DamagedFormError
from airflow_provider_ckpt.model.json_form import Json, shown
from airflow_provider_ckpt.model.tagged import Tagged
from airflow_provider_ckpt.storage.log.append_log import AppendLog, Entry
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.errors import UnknownRecordError
from airflow_provider_ckpt.subtasklog.log_state import Numbered
from airflow_provider_ckpt.subtasklog.records import Record

_RECORDS: Tagged[Record] = Tagged(typing.get_args(Record))


def record_to_json(record: Record) -> dict[str, Any]:
    return _RECORDS.to_json(record)


def record_from_json(body: Json) -> Record:
    """Return the record of parsed JSON.

    Raises UnknownRecordError for an unknown record type, UnknownFormError for unknown fields, and DamagedFormError.
    """
    if not isinstance(body, Mapping) or not isinstance(body.get("type"), str):
        raise DamagedFormError(what=f"{shown(body)} is no record")
    if not _RECORDS.knows(body.get("type")):
        raise UnknownRecordError(where="the subtask log", kind=str(body.get("type"))[:80])
    return _RECORDS.from_json(body)


FORMAT = "subtask-log"
VERSION = 1


PACK = 1000
"""Number of entries that are packed into one object, about 300 KB. A source with 100,000 splits may need 100,000
entries."""


def subtask_entries(storage: Storage, path: str, *, pack: int = 0) -> AppendLog:
    """Return the append log of a subtask. The writer sets ``pack`` to :data:`PACK`."""
    return AppendLog(storage, path, format=FORMAT, version=VERSION, keep=_is_open, parse=record_from_json, pack=pack)


def _is_open(entry: Entry) -> bool:
    """Return True for an Open record, which is never deleted: a fenced attempt could append under its number (R3)."""
    return isinstance(entry.body, dict) and entry.body.get("type") == "Open"


def numbered(entries: list[Entry]) -> list[Numbered]:
    return [(entry.number, entry.value) for entry in entries]
