from __future__ import annotations

import builtins
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.sinks.file.bound_file_sink import BoundFileSink
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file.manifest_log import ManifestLog
from airflow_provider_ckpt.sinks.file.manifests import Manifest, ReleasedFile, read_manifests, released_files
from airflow_provider_ckpt.sinks.file_names import is_data_file, manifests_folder, released_names
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.errors import NewerFormatError, StorageTransientError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import LossyStorage, WrappedStorage
from tests.support.checksum import json_without_checksum

GOLDEN = Path(__file__).parent.parent / "golden" / "sinks-v1"
GOLDEN_URI = "memory://golden/daily revenue"


@pytest.fixture
def uri() -> str:
    return f"memory://{uuid.uuid4().hex}"


def manifest(checkpoint: int, *batches: str, job: str = "orders", sink: str = "lake") -> Manifest:
    files = tuple(ReleasedFile(f"part-{job}-{sink}-{batch}.json", 3) for batch in batches)
    return Manifest(job, sink, checkpoint, 2 * len(batches), batches, files)


def log(uri: str, job: str = "orders", sink: str = "lake") -> ManifestLog:
    return ManifestLog(books(uri), job, sink)


def books(uri: str) -> Storage:
    return FileFolders.open(Location(uri)).books


@pytest.mark.parametrize("length", [*range(18), 100])
def test_r17_the_newest_manifest_is_found_with_one_listing(uri: str, length: int) -> None:
    writer = log(uri)
    for checkpoint in range(1, length + 1):
        assert writer.append(manifest(checkpoint, f"a-{checkpoint}-n"))
    storage = Counting(books(uri))
    reader = ManifestLog(storage, "orders", "lake")
    newest = reader.newest()
    assert (newest.checkpoint if newest else 0) == length
    assert reader.length() == length
    assert storage.lists == 1
    assert storage.looks <= 2


def test_r9_only_one_of_two_concurrent_manifest_appends_wins(uri: str) -> None:
    first, second = log(uri), log(uri)
    assert first.length() == second.length() == 0
    assert first.append(manifest(1, "a-1-n"))
    assert not second.append(manifest(2, "a-1-n", "a-2-n"))
    newest = second.newest()
    assert newest is not None
    assert newest.checkpoint == 1
    assert second.batches_since(0) == {"a-1-n"}
    assert second.append(manifest(2, "a-2-n"))


def test_r17_a_lost_reply_is_not_taken_for_a_lost_race(uri: str) -> None:
    storage = LossyStorage(books(uri), frozenset([1]), repeats=True)
    assert ManifestLog(storage, "orders", "lake").append(manifest(1, "a-1-n"))
    assert [entry.checkpoint for entry in read_manifests(uri)] == [1]


def test_readers_get_each_sinks_checkpoints_in_order_after_a_position(uri: str) -> None:
    for job, sink in (("b", "x"), ("a", "y"), ("a", "x")):
        writer = log(uri, job, sink)
        for checkpoint in (1, 4, 9, 10):
            writer.append(manifest(checkpoint, f"a-{checkpoint}-n", job=job, sink=sink))
    keys = [(entry.job_id, entry.sink, entry.checkpoint) for entry in read_manifests(uri)]
    assert keys == [(j, s, n) for j, s in (("a", "x"), ("a", "y"), ("b", "x")) for n in (1, 4, 9, 10)]
    for after, left in ((0, [1, 4, 9, 10]), (1, [4, 9, 10]), (5, [9, 10]), (9, [10]), (10, []), (99, [])):
        entries = read_manifests(uri, "a", "x", after=after)
        assert [manifest.checkpoint for manifest in entries] == left
    assert len(released_files(uri, "a")) == 8
    assert released_files(uri, "b", "x", after=9) == [f"{uri}/part-b-x-a-10-n.json"]


def test_a_folder_without_releases_has_no_manifests(tmp_path: Path) -> None:
    assert read_manifests(str(tmp_path / "absent")) == []
    assert released_files(str(tmp_path), "orders", "lake") == []


@pytest.mark.parametrize(
    ("path", "visible"),
    [
        ("part-0.json", True),
        ("_day=1/part-0.json", True),
        ("city=_x/part-0.json", True),
        ("_SUCCESS", False),
        (".part-0.json.crc", False),
        ("_temporary/0/part-0.json", False),
        ("city=a/.part-0.json.crc", False),
    ],
)
def test_files_that_spark_ignores_are_hidden(path: str, visible: bool) -> None:
    assert is_data_file(path) is visible


def test_r5_a_repeated_batch_has_other_file_names() -> None:
    """Equal names would collide with files left by an interrupted release of the first try."""

    def names(nonce: str) -> set[str]:
        return set(released_names(["a.parquet", "b.parquet"], job_id="j", uid="out", batch_id=7, nonce=nonce))

    assert len(names("f" * 8)) == 2
    assert not names("f" * 8) & names("e" * 8)


def test_released_names_are_unique_and_short_enough() -> None:
    staged = ["part-00000-bca97f0d-7bce-4d2d-8b58-f798cddaa239-c000.csv.gz", "x/strange.name.csv", "bare"]
    seen = set()
    for job, uid in (("a-b", "c"), ("a", "b_c"), ("j" * 200, "s" * 100), ("j" * 200, "s" * 99 + "t")):
        names = released_names(staged, job_id=job, uid=uid, batch_id=7, nonce="f" * 40)
        assert [name.partition(".")[2] for name in names] == ["csv.gz", "name.csv", ""]
        assert names[1].startswith("x/part-")
        assert all(len(name.encode()) <= 230 for name in names)
        seen.update(names)
    assert len(seen) == 12


# ---- golden copies of stored files


def golden(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


@pytest.fixture
def golden_folders() -> FileFolders:
    folders = FileFolders.open(Location(GOLDEN_URI))
    folders.parent.delete_tree("")
    return folders


@pytest.fixture
def golden_books(golden_folders: FileFolders) -> Storage:
    return golden_folders.books


def test_a_handle_of_version_1_is_released_and_writes_the_manifest_of_version_1(
    golden_folders: FileFolders,
) -> None:
    handle = golden("file-handle.json")
    for file in handle["files"]:
        place = f"orders/lake/staging/{handle['id']}/{file['path']}"
        golden_folders.books.create(place, b"x" * file["size"])
    sink = FileSink(GOLDEN_URI, partition_by=["city"], mode="append").bind(SinkContext("orders", "lake"))
    assert sink.release([handle], 12) == {"files": 2, "rows": 5, "bytes": 15}
    path = f"{manifests_folder('orders', 'lake')}/00000000.json"
    written = json_without_checksum(golden_folders.books.read(path))
    assert {**written, "writer": "0123456789abcdef"} == golden("manifest-00000000.json")
    released = [(file["target"], file["size"]) for file in handle["files"]]
    assert golden_folders.target.files("") == released
    assert [name for name, _ in golden_folders.books.files("")] == [path]


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("lost", range(1, 7))
def test_r17_a_release_with_lost_replies_can_be_repeated(golden_folders: FileFolders, lost: int, repeats: bool) -> None:
    handle = golden("file-handle.json")
    for file in handle["files"]:
        place = f"orders/lake/staging/{handle['id']}/{file['path']}"
        golden_folders.books.create(place, b"x" * file["size"])
    storage = LossyStorage(golden_folders.parent, frozenset([lost]), repeats=repeats)
    sink = FileSink(GOLDEN_URI, mode="append").bind_to(storage, SinkContext("orders", "lake"))
    try:
        counts = sink.release([handle], 12)
    except StorageTransientError:
        counts = sink.release([handle], 12)
    assert counts == {"files": 2, "rows": 5, "bytes": 15}
    assert storage.verbs.count >= 6
    (entry,) = read_manifests(GOLDEN_URI)
    assert [file.path for file in entry.files] == [file["target"] for file in handle["files"]]
    assert golden_folders.books.list("orders/lake/staging") == []


def test_a_manifest_of_version_1_is_read(golden_books: Storage) -> None:
    data = (GOLDEN / "manifest-00000000.json").read_bytes()
    golden_books.create(f"{manifests_folder('orders', 'lake')}/00000000.json", data)
    (entry,) = read_manifests(GOLDEN_URI)
    handle = golden("file-handle.json")
    files = tuple(ReleasedFile(file["target"], file["size"]) for file in handle["files"])
    assert entry == Manifest("orders", "lake", 12, 5, (handle["id"],), files)


def test_a_manifest_of_a_newer_version_is_refused(golden_books: Storage) -> None:
    data = json.dumps({**golden("manifest-00000000.json"), "version": 2}).encode()
    golden_books.create(f"{manifests_folder('orders', 'lake')}/00000000.json", data)
    with pytest.raises(NewerFormatError):
        read_manifests(GOLDEN_URI)


def test_the_repr_of_a_bound_sink_shows_its_folder(uri: str) -> None:
    sink: BoundFileSink = FileSink(uri).bind(SinkContext("orders", "lake"))
    assert repr(sink) == f"BoundFileSink('lake', '{uri}')"


class Counting(WrappedStorage):
    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.lists = 0
        self.looks = 0

    def list(self, path: str) -> builtins.list[str]:
        self.lists += 1
        return super().list(path)

    def read(self, path: str) -> bytes:
        self.looks += 1
        return super().read(path)

    def exists(self, path: str) -> bool:
        self.looks += 1
        return super().exists(path)
