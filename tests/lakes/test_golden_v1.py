"""Golden copies of files of table sinks: handles, intents, and the start of an overwriting sink."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.model.json_form import from_json, to_json
from airflow_provider_ckpt.sinks.errors import StagedElsewhereError, UnknownHandleError
from airflow_provider_ckpt.sinks.lake.columns import Column
from airflow_provider_ckpt.sinks.lake.intents import Intent, IntentLog
from airflow_provider_ckpt.sinks.lake.lake_handle import LakeFile, LakeHandle
from airflow_provider_ckpt.sinks.lake.table_commits import StartMark
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.errors import NewerFormatError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.support.checksum import json_without_checksum

GOLDEN = Path(__file__).parent.parent / "golden" / "lakes-v1"
CONTEXT = SinkContext("orders", "lake")
URI = "file:///lake/orders"
TAGS = {"type": "array", "elementType": "string", "containsNull": True}
COLUMNS = (Column("id", "integer"), Column("tags", TAGS), Column("day", "date", nullable=False))


def golden(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


@pytest.fixture
def storage() -> Storage:
    return open_storage(f"memory://{uuid.uuid4().hex}")


def test_the_golden_lake_handle_is_read_and_written_unchanged() -> None:
    handle = golden("lake-handle.json")
    read = LakeHandle.read(handle, CONTEXT, URI)
    assert (read.id, read.intents, read.applied, read.columns) == ("0001-abc-7-n1", 4, 3, COLUMNS)
    assert read.files[0].stats == {"id": (1, 9, 0)}
    assert json.loads(json.dumps(read.to_json())) == handle
    with pytest.raises(StagedElsewhereError):
        LakeHandle.read(handle, CONTEXT, "file:///other")
    with pytest.raises(UnknownHandleError):
        LakeHandle.read({**handle, "version": 2}, CONTEXT, URI)


@pytest.mark.parametrize("name", ["intent-00000000.json", "intent-upsert.json"])
def test_the_golden_intents_are_read_and_written_unchanged(storage: Storage, name: str) -> None:
    storage.create("_ckpt/orders/lake/intents/00000000.json", json.dumps(golden(name)).encode())
    log = IntentLog(storage, "orders", "lake")
    assert log.catch_up() == 1
    intent = log.entry(0)
    assert (intent.checkpoint, intent.overwrites, intent.columns) == (12, 2, COLUMNS)
    assert intent.overwrites_after == (3 if intent.change == "replace" else 2)
    assert json.loads(json.dumps(to_json(intent))) == golden(name)["body"]
    assert from_json(Intent, golden(name)["body"]) == intent


def test_an_intent_of_a_later_version_is_refused(storage: Storage) -> None:
    later = json.dumps({**golden("intent-00000000.json"), "version": 2}).encode()
    storage.create("_ckpt/orders/lake/intents/00000000.json", later)
    with pytest.raises(NewerFormatError):
        IntentLog(storage, "orders", "lake").entry(0)


def test_the_golden_start_mark_is_read_and_written_unchanged(storage: Storage) -> None:
    mark = StartMark(storage, "orders", "lake")
    assert mark.read() is None
    mark.create(2)
    assert json_without_checksum(storage.read("_ckpt/orders/lake/start.json")) == golden("start.json")
    mark.create(5)
    assert mark.read() == 2


def test_empty_fields_of_a_lake_file_are_omitted() -> None:
    assert to_json(LakeFile("a", 1, 1, "b")) == {"path": "a", "size": 1, "rows": 1, "target": "b"}
