"""Outboxes: messages survive the storage, and an outbox that cannot be understood is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ckpt.coordinator.protocol.commands import DeploySubtask
from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskOpened
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.remote.mailbox import Outbox, read_outbox, write_outbox
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, NewerFormatError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.coordinator.sample_messages import MESSAGES
from tests.support.checksum import json_without_checksum

GOLDEN = Path(__file__).parents[1] / "golden" / "outbox-v1.json"
WORLD = (3, SubtaskId("v/0"), AttemptId(3, 1, "ab"))
SAMPLE = Outbox(
    Worker("host-1", "b-1", 4711, "99", "app-1", "pid:[4026531836]"),
    7,
    {"master-0004": ((2, SubtaskOpened(*WORLD)), (3, DeploySubtask(*WORLD, VertexPlan(0, ("history",)))))},
    {"master-0004": 5},
    "it was told to",
    frozenset(map(SubtaskId, ("v/0", "v/1"))),
)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def test_every_command_and_report_survives_the_outbox(storage: Storage) -> None:
    outbox = Outbox(Worker("host"), 1, {"one": tuple(enumerate(MESSAGES, 1)), "other": ()}, {"one": 3})
    write_outbox(storage, "o.json", outbox)
    assert read_outbox(storage, "o.json") == outbox


def test_golden_an_outbox_reads_and_writes_the_same(storage: Storage) -> None:
    golden = GOLDEN.read_bytes()
    storage.create("golden.json", golden)
    assert read_outbox(storage, "golden.json") == SAMPLE
    write_outbox(storage, "o.json", SAMPLE)
    assert json_without_checksum(storage.read("o.json")) == json.loads(golden)


def test_a_missing_outbox_reads_as_none(storage: Storage) -> None:
    assert read_outbox(storage, "o.json") is None


@pytest.mark.parametrize(
    "change",
    [
        {"messages": []},
        {"messages": {"m": [{"number": "1", "message": {}}]}},
        {"messages": {"m": [{"number": 1, "message": {"type": "Sing"}}]}},
        {"messages": {"m": [{"number": 1}]}},
        {"process": {"planet": "Mars"}},
        {"beat": None},
        {"read": {"m": "x"}},
        {"left": 3},
        {"format": "airflow-provider-ckpt/root"},
    ],
    ids=str,
)
def test_the_error_names_an_invalid_outbox(storage: Storage, change: dict[str, object]) -> None:
    storage.create("o.json", json.dumps({**json.loads(GOLDEN.read_text()), **change}).encode())
    with pytest.raises(MalformedDocumentError, match=r"o\.json"):
        read_outbox(storage, "o.json")


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_the_error_names_a_truncated_outbox(storage: Storage, cut: int) -> None:
    storage.create("o.json", GOLDEN.read_bytes()[:cut])
    with pytest.raises(MalformedDocumentError, match=r"o\.json"):
        read_outbox(storage, "o.json")


def test_an_outbox_of_a_later_version_asks_for_an_upgrade(storage: Storage) -> None:
    storage.create("o.json", json.dumps({**json.loads(GOLDEN.read_text()), "version": 2}).encode())
    with pytest.raises(NewerFormatError):
        read_outbox(storage, "o.json")
