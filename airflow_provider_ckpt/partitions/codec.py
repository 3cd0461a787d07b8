"""Conversion of a subtask log's records to readable JSON and back. Golden copies: ``tests/golden/subtask-log-v1``."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.model.errors import DamagedFormError
from airflow_provider_ckpt.model.json_form import Json, shown
from airflow_provider_ckpt.model.tagged import Tagged
from airflow_provider_ckpt.partitions.errors import UnknownRecordError
from airflow_provider_ckpt.partitions.records import Record

_RECORDS: Tagged[Record] = Tagged(typing.get_args(Record))


def record_to_json(record: Record) -> dict[str, Any]:
    return _RECORDS.to_json(record)


def record_from_json(body: Json) -> Record:
    """Read a record.

    Raises UnknownRecordError for an unknown record type, and UnknownFormError for unknown fields.
    """
    if not isinstance(body, Mapping) or not isinstance(body.get("type"), str):
        raise DamagedFormError(what=f"{shown(body)} is no record")
    if not _RECORDS.knows(body.get("type")):
        raise UnknownRecordError(where="the subtask log", kind=str(body.get("type"))[:80])
    return _RECORDS.from_json(body)
