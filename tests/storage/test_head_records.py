"""The head record of a log is checked before it is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.storage.errors import CorruptLogError
from airflow_provider_ckpt.storage.log.append_log import AppendLog
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage


def log(storage: Storage, *, begins_at_head: bool = False) -> AppendLog:
    return AppendLog(storage, "log", format="test", begins_at_head=begins_at_head)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """Return a storage with a log of the entries 0 to 3, which was truncated up to entry 2."""
    storage = open_storage(tmp_path)
    written = log(storage)
    for number in range(4):
        written.append({"n": number})
    written.truncate(2)
    return storage


def test_a_head_record_is_read_back(storage: Storage) -> None:
    assert [entry.number for entry in log(storage, begins_at_head=True).load()] == [2, 3]


HEADS: dict[str, tuple[dict[str, Any], str]] = {
    "of another name": ({"head": 1, "kept": []}, "it says that the head is 1"),
    "without a head": ({"kept": []}, "it has no 'head'"),
    "true for one": ({"head": True, "kept": []}, "head: True, a bool"),
    "kept is text": ({"head": 2, "kept": "01"}, "kept: '01', a str"),
    "kept is an object": ({"head": 2, "kept": {"0": 1}}, "kept: {'0': 1}, a dict"),
    "kept holds text": ({"head": 2, "kept": ["0"]}, "kept: '0', a str"),
    "kept below 0": ({"head": 2, "kept": [-1]}, "kept: -1 is not from 0 to"),
    "kept is a fraction": ({"head": 2, "kept": [0.0]}, "kept: 0.0, a float"),
}


@pytest.mark.parametrize("case", HEADS)
def test_an_invalid_head_record_is_refused_by_name(storage: Storage, case: str) -> None:
    fields, problem = HEADS[case]
    document = {"format": "airflow-provider-ckpt/test-head", "version": 1, **fields}
    storage.replace("log/head-00000002.json", json.dumps(document).encode())
    with pytest.raises(CorruptLogError) as refused:
        log(storage).load()
    assert f"log/head-00000002.json is damaged: the head record cannot be read ({problem}" in str(refused.value)


def test_infinity_in_a_head_record_is_refused(storage: Storage) -> None:
    text = b'{"format": "airflow-provider-ckpt/test-head", "version": 1, "head": 2, "kept": [Infinity]}'
    storage.replace("log/head-00000002.json", text)
    with pytest.raises(CorruptLogError, match="Infinity in it is no number of JSON"):
        log(storage).load()


@pytest.mark.parametrize("name", [f"{10**30}.json", f"pack-00000002-{10**30}.json"])
def test_a_foreign_file_with_a_large_number_takes_no_memory(storage: Storage, name: str) -> None:
    storage.requests_at_once = 16
    storage.create(f"log/{name}", b"{}")
    if name.startswith("pack"):
        assert [entry.number for entry in log(storage).load()] == [2, 3]
        return
    with pytest.raises(CorruptLogError, match=r"00000004\.json is damaged: it is missing, though later entries"):
        log(storage).load()


def test_only_a_log_without_begins_at_head_may_lack_its_head_entry(storage: Storage) -> None:
    log(storage).truncate(4)
    assert log(storage).load() == []
    with pytest.raises(CorruptLogError, match="a head record says that the log begins with it"):
        log(storage, begins_at_head=True).load()
