"""Steps of a release: checks before it, concurrent changes, and a log that lost entries."""

from __future__ import annotations

import builtins
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.sinks.errors import (
    ForeignReleaseError,
    ReleaseRecordLostError,
    StagedDataDamagedError,
    StagedFilesMissingError,
)
from airflow_provider_ckpt.sinks.file import bound_file_sink
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from airflow_provider_ckpt.sinks.file_names import OWNERSHIP
from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, WrappedStorage
from tests.sinks.lake import Lake
from tests.spark.faults import HookedStorage, die, once_before_verb
from tests.support.books import books

MANIFESTS = "orders/lake/manifests"


@pytest.fixture(params=["memory", "disk"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake(f"memory://{uuid.uuid4().hex}" if request.param == "memory" else tmp_path / "lake")


class Requests(WrappedStorage):
    """Storage that counts the calls of each verb."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.counts: dict[str, int] = {}

    def _count(self, verb: str) -> None:
        self.counts[verb] = self.counts.get(verb, 0) + 1

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        self._count(verb)
        super()._mutate(verb, path, act)

    def read(self, path: str) -> bytes:
        self._count("read")
        return super().read(path)

    def exists(self, path: str) -> bool:
        self._count("exists")
        return super().exists(path)

    def size(self, path: str) -> int:
        self._count("size")
        return super().size(path)

    def list(self, path: str) -> list[str]:
        self._count("list")
        return super().list(path)

    def files(self, path: str) -> Sizes:
        self._count("files")
        return super().files(path)

    def child(self, path: str) -> Requests:
        child = Requests(self.inner.child(path))
        child.counts = self.counts
        return child


# ---- all staged files are checked before a release


@pytest.mark.parametrize("content", [b"", b"ro", b"row of another"])
def test_a_staged_file_of_another_size_prevents_the_whole_release(lake: Lake, content: bytes) -> None:
    sink = lake.new("orders", "append")
    whole, cut = lake.staged("orders", 1, "whole"), lake.staged("orders", 2, "one", "two")
    path = f"orders/lake/staging/{cut['id']}/part-00001.txt"
    lake.books.replace(path, content)
    before = lake.paths()
    with pytest.raises(StagedDataDamagedError, match="Bring the file back and resume with") as changed:
        sink.release([whole, cut], 7)
    message = str(changed.value)
    for part in (
        "job 'orders'",
        "sink lake",
        "Checkpoint 7",
        path,
        "3 bytes",
        f"has {len(content)}",
        "--resume-failed",
    ):
        assert part in message
    assert lake.paths() == before
    assert read_manifests(lake.uri) == []
    lake.books.replace(path, b"two")
    sink.release([whole, cut], 7)
    assert lake.named() == lake.listed() == ["one", "two", "whole"]


@pytest.mark.parametrize("content", [b"", None])
def test_an_already_moved_file_is_checked_too(lake: Lake, content: bytes | None) -> None:
    """The previous release died after moving the files. Then its machine died, too."""
    handle = lake.staged("orders", 1, "one", "two")
    dying = lake.bind(
        "orders", "append", storage=HookedStorage(lake.parent, once_before_verb("create", MANIFESTS, die))
    )
    with pytest.raises(SimulatedCrash):
        dying.release([handle], 1)
    target = handle["files"][0]["target"]
    if content is None:
        lake.storage.delete(target)
    else:
        lake.storage.replace(target, content)
    with pytest.raises(StagedFilesMissingError if content is None else StagedDataDamagedError, match="part-"):
        lake.bind("orders", "append").release([handle], 1)
    assert read_manifests(lake.uri) == []


def test_a_release_lists_each_staged_folder_once(lake: Lake) -> None:
    sink = lake.new("orders", "append")
    sink.release([lake.staged("orders", 0, "first")], 1)
    storage = Requests(lake.parent)
    counted = lake.bind("orders", "append", storage=storage)
    counted.last_released()
    storage.counts.clear()
    batches = [lake.staged("orders", batch, "a", "b", "c", "d", since=1) for batch in (1, 2, 3)]
    counted.release(batches, 2)
    assert storage.counts.pop("files") == 3
    assert storage.counts.pop("create") == 1
    assert "size" not in storage.counts
    assert storage.counts["exists"] == 2 * 12  # two for each moved file
    assert storage.counts["list"] == 1  # the list of turns, read once in a process
    assert storage.counts["read"] <= 5


def test_an_already_moved_file_costs_one_request(lake: Lake) -> None:
    handle = lake.staged("orders", 1, "a", "b", "c")
    dying = lake.bind("orders", "append", storage=CrashingStorage(lake.parent, at=5, when="before"))
    with pytest.raises(SimulatedCrash):
        dying.release([handle], 1)
    storage = Requests(lake.parent)
    lake.bind("orders", "append", storage=storage).release([handle], 1)
    assert storage.counts["size"] == 2
    assert lake.named() == ["a", "b", "c"]


# ---- concurrent changes


def test_r9_the_loser_of_a_race_releases_only_the_remaining_batches(lake: Lake) -> None:
    first, second = lake.staged("orders", 1, "one"), lake.staged("orders", 2, "two")
    other = lake.bind("orders", "append")
    hook = once_before_verb("create", MANIFESTS, lambda: other.release([first], 1))
    loser = lake.bind("orders", "append", storage=HookedStorage(lake.parent, hook))
    assert loser.release([first, second], 2) == {"files": 1, "rows": 1, "bytes": 3}
    assert [(m.checkpoint, m.batches) for m in read_manifests(lake.uri)] == [(1, (first["id"],)), (2, (second["id"],))]
    assert lake.named() == lake.listed() == ["one", "two"]


def test_r9_the_loser_of_a_race_with_a_higher_checkpoint_releases_nothing(lake: Lake) -> None:
    """The number is checked and advanced in one step, so a zombie that has already checked it is too late."""
    first, second = lake.staged("orders", 1, "one"), lake.staged("orders", 2, "two")
    successor = lake.bind("orders", "append")
    hook = once_before_verb("create", MANIFESTS, lambda: successor.release([first, second], 2))
    zombie = lake.bind("orders", "append", storage=HookedStorage(lake.parent, hook))
    assert zombie.release([first], 1)["rows"] == 0
    assert [manifest.checkpoint for manifest in read_manifests(lake.uri)] == [2]
    assert zombie.last_released() == 2


def test_r9_files_released_by_another_and_consumed_are_not_an_error(lake: Lake) -> None:
    handle = lake.staged("orders", 1, "one", "two")

    def released_and_consumed() -> None:
        lake.bind("orders", "append").release([handle], 1)
        for file in handle["files"]:
            lake.storage.delete(file["target"])

    hook = once_before_verb("copy" if lake.uri.startswith("memory") else "delete", "part-", released_and_consumed)
    late = lake.bind("orders", "append", storage=HookedStorage(lake.parent, hook))
    assert late.release([handle], 1)["rows"] == 2
    assert len(read_manifests(lake.uri)) == 1


def test_r9_batches_released_since_staging_are_not_released_again(lake: Lake) -> None:
    sink = lake.new("orders", "append")
    batches = [lake.staged("orders", number, f"row {number}", since=0) for number in range(1, 6)]
    for number, handle in enumerate(batches, start=1):
        lake.bind("orders", "append").release([handle], number)
    last = lake.staged("orders", 9, "last", since=0)
    assert sink.release([*batches, last], 9)["rows"] == 1
    assert lake.named() == lake.listed() == ["last", *(f"row {number}" for number in range(1, 6))]


def test_a_release_of_a_foreign_job_with_the_same_name_raises(lake: Lake) -> None:
    ours, theirs = lake.staged("orders", 1, "ours"), lake.staged("orders", 2, "theirs")
    lake.bind("orders", "append").release([theirs], 4)
    for checkpoint in (3, 4):
        with pytest.raises(ForeignReleaseError):
            lake.bind("orders", "append").release([ours], checkpoint)
    assert lake.named() == ["theirs"]


# ---- a log that lost entries is not a shorter log


@pytest.mark.parametrize("gone", [0, 1, 4, 5])
def test_a_deleted_manifest_stops_releases_and_readers(lake: Lake, gone: int) -> None:
    sink = lake.new("orders", "append")
    for number in range(1, 8):
        sink.release([lake.staged("orders", number, f"row {number}", since=number - 1)], number)
    lake.books.delete(f"{MANIFESTS}/{gone:08d}.json")
    late = lake.staged("orders", 8, "late", since=7)
    before = lake.paths()
    process = lake.bind("orders", "append")
    for use in (
        process.prepare,
        process.last_released,
        lambda: process.release([late], 8),
        lambda: process.release([], 8),
        lambda: read_manifests(lake.uri),
        lambda: read_manifests(lake.uri, "orders", "lake", after=6),
        lake.bind("next", "errorifexists").check_target,
        lambda: lake.bind("next").release([], 1),
    ):
        with pytest.raises(ReleaseRecordLostError, match=f"entry {gone} is gone"):
            use()
    assert [path for path in lake.paths() if "next" not in path and "~owners" not in path] == before


@pytest.mark.parametrize("content", ["", '{"format": "airflow-prov', "[]", "\x00\x00"])
def test_an_unreadable_newest_manifest_is_refused(lake: Lake, content: str) -> None:
    """No release follows it, and no batch counts as released."""
    sink = lake.new("orders", "append")
    for number in (1, 2):
        sink.release([lake.staged("orders", number, f"row {number}", since=number - 1)], number)
    lake.books.replace(f"{MANIFESTS}/00000001.json", content.encode())
    late = lake.staged("orders", 3, "late", since=2)
    before = lake.paths()
    process = lake.bind("orders", "append")
    for use in (process.last_released, lambda: process.release([late], 3), lambda: read_manifests(lake.uri)):
        with pytest.raises(ReleaseRecordLostError, match="entry 1 is not what was written") as caught:
            use()
        assert not caught.value.retryable
    assert lake.paths() == before


def test_a_manifest_log_shorter_than_at_stage_is_refused(lake: Lake) -> None:
    sink = lake.new("orders", "append")
    for number in (1, 2):
        sink.release([lake.staged("orders", number, f"row {number}", since=number - 1)], number)
    lake.books.delete(f"{MANIFESTS}/00000001.json")
    for since, released in ((2, False), (1, True)):
        late = lake.staged("orders", 2 + since, "late", since=since)
        if released:
            assert lake.bind("orders", "append").release([late], 3)["rows"] == 1
        else:
            with pytest.raises(ReleaseRecordLostError, match=late["id"]):
                lake.bind("orders", "append").release([late], 3)


def test_a_manifest_deleted_during_a_run_is_detected(lake: Lake) -> None:
    sink = lake.new("orders", "append")
    for number in (1, 2, 3):
        lake.bind("orders", "append").release([lake.staged("orders", number, f"row {number}")], number)
    assert sink.last_released() == 3
    lake.books.delete(f"{MANIFESTS}/00000001.json")
    fresh = lake.bind("orders", "append", storage=Remembered(lake.parent))
    with pytest.raises(TerminalError, match="entry 1 is gone"):
        fresh.release([lake.staged("orders", 4, "late", since=0)], 4)


class Remembered(WrappedStorage):
    """Storage whose listing still shows deleted files."""

    def list(self, path: str) -> builtins.list[str]:
        return ["00000000.json", "00000001.json", "00000002.json"] if path == MANIFESTS else super().list(path)

    def _wrap(self, inner: Storage) -> Remembered:
        return Remembered(inner)


def test_an_incomplete_listing_is_not_taken_for_damage(lake: Lake) -> None:
    class Partial(WrappedStorage):
        """Storage whose folder was listed while entries were created: the second entry is shown, the first is not."""

        def list(self, path: str) -> builtins.list[str]:
            return [name for name in super().list(path) if path != MANIFESTS or name != "00000001.json"]

        def _wrap(self, inner: Storage) -> Partial:
            return Partial(inner)

    sink = lake.new("orders", "append")
    for number in (1, 2, 3):
        sink.release([lake.staged("orders", number, f"row {number}", since=number - 1)], number)
    assert lake.bind("orders", "append", storage=Partial(lake.parent)).last_released() == 3


def test_temporary_files_of_killed_writers_are_collected_by_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path / "lake")
    sink = lake.release("orders", "a")
    beside = books(tmp_path / "lake")
    left = [beside / folder / ".tmp-0123456789abcdef" for folder in (MANIFESTS, OWNERSHIP)]
    left.append(beside / ".probe-0123456789abcdef")
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    sink.collect_garbage(set(), set())
    assert all(path.exists() for path in left), "its writer may be alive"
    monkeypatch.setattr(bound_file_sink, "LEFT_BEHIND", 0.0)
    sink.collect_garbage(set(), set())
    assert not any(path.exists() for path in left)
    assert lake.named() == ["a"]
