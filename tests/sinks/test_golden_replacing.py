"""Golden copies of the output of a replacing sink: its first manifest, and the turns."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.sinks.errors import OutputSupersededError
from airflow_provider_ckpt.sinks.file.manifests import Manifest, ReleasedFile, read_manifests
from airflow_provider_ckpt.sinks.file.ownership_log import OwnershipEntry, OwnershipLog
from airflow_provider_ckpt.sinks.file_names import OWNERSHIP, manifests_folder
from airflow_provider_ckpt.sinks.sink_name import SinkName
from airflow_provider_ckpt.storage.errors import NewerFormatError
from tests.sinks.lake import Lake
from tests.support.checksum import json_without_checksum

GOLDEN = Path(__file__).parent.parent / "golden"
NAMES = (SinkName("orders", "lake"), SinkName("refunds", "table"))
TURN_FILES = [f"turn-{number:08d}.json" for number in range(3)]


def golden(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


@pytest.fixture
def lake() -> Lake:
    return Lake(f"memory://{uuid.uuid4().hex}")


def put(lake: Lake, path: str, name: str, **change: Any) -> None:
    lake.books.create(path, json.dumps({**golden(name), **change}).encode())


def test_the_written_turns_and_manifests_match_the_golden_files(lake: Lake) -> None:
    lake.release("orders", "o", mode="errorifexists")
    lake.release("refunds", "r", mode="append", uid="table")
    sink = lake.new("orders~g1")
    sink.release([lake.staged("orders~g1", 1, "one", "three")], 3)
    written = {
        path: json_without_checksum(lake.books.read(path)) for path, _ in lake.books.files("") if path.endswith(".json")
    }
    shown = {path: {**document, "writer": "0123456789abcdef"} for path, document in written.items()}
    for name in TURN_FILES:
        assert shown[f"{OWNERSHIP}/{name.removeprefix('turn-')}"] == golden(f"sinks-v1/{name}")
    path = f"{manifests_folder('orders~g1', 'lake')}/00000000.json"
    assert shown[path] == golden("sinks-v1/manifest-that-supersedes.json")


def test_golden_manifests_are_read_with_and_without_superseded_sinks(lake: Lake) -> None:
    put(lake, f"{manifests_folder('orders', 'lake')}/00000000.json", "sinks-v1/manifest-00000000.json")
    (first,) = read_manifests(lake.uri)
    assert (first.job_id, first.supersedes) == ("orders", ())
    put(lake, f"{manifests_folder('orders~g1', 'lake')}/00000000.json", "sinks-v1/manifest-that-supersedes.json")
    for name in TURN_FILES:
        put(lake, f"{OWNERSHIP}/{name.removeprefix('turn-')}", f"sinks-v1/{name}")
    prefix = "part-orders~g1-lake-00000001-n1"
    files = (ReleasedFile(f"{prefix}-00000.txt", 3), ReleasedFile(f"{prefix}-00001.txt", 5))
    assert read_manifests(lake.uri) == [Manifest("orders~g1", "lake", 3, 2, ("a1-1-n1",), files, NAMES)]
    assert OwnershipLog(lake.books).catch_up() == [
        OwnershipEntry("first", NAMES[0], "errorifexists"),
        OwnershipEntry("start", SinkName("orders~g1", "lake"), "overwrite"),
        OwnershipEntry("first", SinkName("orders~g1", "lake"), "overwrite", NAMES),
    ]
    with pytest.raises(OutputSupersededError, match="orders~g1"):
        lake.bind("orders", "append").prepare()


def test_a_turn_of_a_newer_version_is_refused(lake: Lake) -> None:
    put(lake, f"{OWNERSHIP}/00000000.json", "sinks-v1/turn-00000000.json", version=2)
    with pytest.raises(NewerFormatError):
        lake.new("orders")
