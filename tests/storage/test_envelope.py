"""Durable files end with a checksum of their content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.errors import CorruptLogError, MalformedDocumentError, NewerFormatError
from airflow_provider_ckpt.storage.log.append_log import AppendLog
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage

FIELDS = {"number": 7, "offsets": {"live": 118}, "name": "Straße"}
GOLDEN = (
    b'{"format": "airflow-provider-ckpt/test", "version": 1, "number": 7, "offsets": {"live": 118}, '
    b'"name": "Stra\\u00dfe", "crc32": "ccd647fc"}\n'
)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path / "root")


def decoded(data: bytes) -> dict[str, object]:
    document = decode_document(data, "test", 1, uri="file:///a.json")
    return {name: document[name] for name in FIELDS}


def test_golden_a_document_ends_with_the_checksum_of_its_content() -> None:
    assert encode_document("test", 1, **FIELDS) == GOLDEN
    assert decoded(GOLDEN) == FIELDS


def test_a_document_without_a_checksum_is_read() -> None:
    assert decoded(GOLDEN.replace(b', "crc32": "ccd647fc"', b"")) == FIELDS


def test_a_changed_bit_is_refused_or_changes_no_value() -> None:
    refused = 0
    for at in range(len(GOLDEN)):
        for bit in range(8):
            damaged = bytearray(GOLDEN)
            damaged[at] ^= 1 << bit
            try:
                assert decoded(bytes(damaged)) == FIELDS, (
                    at,
                    bit,
                )  # changes of the checksum's own key, or of white space
            except (MalformedDocumentError, NewerFormatError):
                refused += 1
    assert refused > 7 * len(GOLDEN)


def test_a_changed_digit_is_refused_with_the_file() -> None:
    with pytest.raises(MalformedDocumentError, match=r"file:///a\.json.*crc32 does not match its content"):
        decoded(GOLDEN.replace(b"118", b"119"))


def test_a_reformatted_document_is_refused() -> None:
    with pytest.raises(MalformedDocumentError, match="changed after it was written"):
        decoded(json.dumps(json.loads(GOLDEN), indent=2).encode())


def test_a_log_stops_before_an_entry_with_a_changed_digit(storage: Storage) -> None:
    log = AppendLog(storage, "log", format="test")
    for rows in (117, 118, 119):
        log.append({"rows": rows})
    storage.replace("log/00000001.json", storage.read("log/00000001.json").replace(b"118", b"128"))
    with pytest.raises(CorruptLogError, match=r"00000001\.json.*crc32") as error:
        AppendLog(storage, "log", format="test").load()
    assert [entry.body for entry in error.value.data["intact"]] == [{"rows": 117}]


def test_a_head_record_with_a_changed_digit_is_refused(storage: Storage) -> None:
    log = AppendLog(storage, "log", format="test")
    for number in range(6):
        log.append(number)
    log.truncate(3, lambda entry: entry.body == 1)
    head = "log/head-00000003.json"
    storage.replace(head, storage.read(head).replace(b"[1]", b"[2]"))
    with pytest.raises(CorruptLogError, match=r"head-00000003\.json.*crc32"):
        AppendLog(storage, "log", format="test").load()
