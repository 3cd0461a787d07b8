"""Packs, which are copies of a log's entries. A log reads the same with and without them, even if they are damaged."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.storage.envelope import encode_document
from airflow_provider_ckpt.storage.errors import (
    CorruptLogError,
    LostRaceError,
    StorageFailedError,
    StorageTransientError,
)
from airflow_provider_ckpt.storage.log import log_packs
from airflow_provider_ckpt.storage.log.append_log import AppendLog, Entry
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.record_codec import PACK
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, WrappedStorage, crash_points

FIRST, SECOND = "log/pack-00000000-00000003.json", "log/pack-00000004-00000007.json"


@pytest.fixture(params=[1, 4], ids=["one after the other", "several at once"])
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> Storage:
    opened = open_storage(tmp_path / "root")
    opened.requests_at_once = request.param
    return opened


class Counting(WrappedStorage):
    """Storage that records the names read, in ``reads``."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.reads: list[str] = []

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        return super().read(path)


def is_open(entry: Entry) -> bool:
    return bool(entry.body == "open")


def writer(storage: Storage, *, pack: int = 4) -> AppendLog:
    return AppendLog(storage, "log", format="test", keep=is_open, pack=pack)


def reader(storage: Storage) -> AppendLog:
    return AppendLog(storage, "log", format="test", keep=is_open)


def filled(storage: Storage, *bodies: Any) -> AppendLog:
    log = writer(storage)
    for body in bodies:
        log.append(body)
    return log


def packs(storage: Storage) -> list[str]:
    return [f"log/{name}" for name in storage.list("log") if name.startswith("pack")]


def bodies(entries: list[Entry]) -> list[Any]:
    return [entry.body for entry in entries]


def test_packed_entries_are_copied_and_kept(storage: Storage) -> None:
    filled(storage, *range(10))
    assert packs(storage) == [FIRST, SECOND]
    assert [name for name in storage.list("log") if name[0] == "0"] == [f"{number:08d}.json" for number in range(10)]


def test_a_log_is_read_from_its_packs_and_its_unpacked_entries(storage: Storage) -> None:
    filled(storage, *range(10))
    counting = Counting(storage)
    assert bodies(reader(counting).load()) == [*range(10)]
    last = ["log/00000003.json", "log/00000007.json"]  # each is read, to check that it is the entry in the pack
    assert sorted(counting.reads) == [*last, "log/00000008.json", "log/00000009.json", FIRST, SECOND]


def test_packed_entries_equal_single_entries(storage: Storage) -> None:
    def load() -> list[Entry]:
        return AppendLog(storage, "log", format="test", keep=is_open, parse=lambda body: (body,)).load()

    filled(storage, "open", {"rows": [1, None]}, "Straße", 4.5, 5)
    by_packs = load()
    assert by_packs[1].value == ({"rows": [1, None]},)
    for name in packs(storage):
        storage.delete(name)
    assert load() == by_packs


def test_golden_a_pack_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage("memory://golden-pack")
    nonces = iter(f"5f1c0000a1b2c3d{number}" for number in range(9))
    monkeypatch.setattr("secrets.token_hex", lambda size: next(nonces) if size == 8 else "")
    filled(storage, "open", {"rows": 3}, None, 4)
    assert storage.read(FIRST) == (
        b'{"format": "airflow-provider-ckpt/test-pack", "version": 1, "entries": [\n'
        b'{"number": 0, "writer": "5f1c0000a1b2c3d0", "body": "open"},\n'
        b'{"number": 1, "writer": "5f1c0000a1b2c3d1", "body": {"rows": 3}},\n'
        b'{"number": 2, "writer": "5f1c0000a1b2c3d2", "body": null},\n'
        b'{"number": 3, "writer": "5f1c0000a1b2c3d3", "body": 4}\n'
        b'], "crc32": "80634675"}\n'
    )


def test_a_new_writer_packs_entries_that_it_has_read(storage: Storage) -> None:
    filled(storage, 0, 1)
    again = writer(storage)
    again.load()
    again.append(2)
    again.append(3)
    assert packs(storage) == [FIRST]
    assert bodies(reader(storage).load()) == [0, 1, 2, 3]


def test_a_pack_includes_entries_of_other_writers(storage: Storage) -> None:
    first, other = filled(storage, 0, 1), writer(storage)
    other.load()
    other.append("other's")
    with pytest.raises(LostRaceError):
        first.append("mine")
    first.tail()
    first.append(3)
    assert packs(storage) == [FIRST]
    assert bodies(reader(storage).load()) == [0, 1, "other's", 3]


def test_an_overtaken_writer_packs_no_entry_that_it_failed_to_append(storage: Storage) -> None:
    late, other = filled(storage, 0, 1, 2), writer(storage, pack=0)
    other.load()
    other.append("other's")
    with pytest.raises(LostRaceError):
        late.append("late")
    assert packs(storage) == []
    assert bodies(reader(storage).load()) == [0, 1, 2, "other's"]


DAMAGES = {
    "gone": None,
    "half": lambda data: data[: len(data) // 2],
    "a digit": lambda data: data.replace(b'"body": 2', b'"body": 7'),
    "other numbers": lambda data: encode_document("test-pack", 1, entries=[{"number": 9, "writer": "w", "body": 9}]),
    "fewer": lambda data: encode_document("test-pack", 1, entries=[{"number": 0, "writer": "w", "body": 9}]),
    "no entries": lambda data: encode_document("test-pack", 1, entries=3),
    "of other fields": lambda data: encode_document("test-pack", 1, entries=[{"n": n} for n in range(4)]),
    "of a later release": lambda data: encode_document("test-pack", 2, packed="…"),
    "no text": lambda data: b"\xff" + data,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_entries_are_read_despite_a_damaged_pack(storage: Storage, damage: str) -> None:
    filled(storage, *range(6))
    change: Any = DAMAGES[damage]

    class Damaged(WrappedStorage):
        """Storage that lists the first pack, but returns damaged content or none."""

        def read(self, path: str) -> bytes:
            if path != FIRST:
                return super().read(path)
            return (
                storage.read("log/none" if change is None else path) if change is None else change(super().read(path))
            )

    counting = Counting(Damaged(storage))
    assert bodies(reader(counting).load()) == [*range(6)]
    assert FIRST in counting.reads
    assert "log/00000002.json" in counting.reads


def test_a_pack_does_not_restore_entries_that_a_torn_copy_lacks(tmp_path: Path) -> None:
    """A live root was copied name by name, or a bucket was replicated: the pack exists, but the last entries do not.

    A writer of the copy creates other entries with these numbers. It creates no pack, because one exists, so readers
    must not use the old pack.
    """
    whole, copy = open_storage(tmp_path / "whole"), open_storage(tmp_path / "copy")
    filled(whole, 0, 1, 2, 3)
    for name in ("00000000.json", "00000001.json", "pack-00000000-00000003.json"):
        copy.create(f"log/{name}", whole.read(f"log/{name}"))
    assert bodies(reader(copy).load()) == [0, 1]
    log = writer(copy)
    for number, body in enumerate(["other's 2", "other's 3", "other's 4"], start=3):
        log.append(body)
        assert bodies(reader(copy).load()) == [0, 1, "other's 2", "other's 3", "other's 4"][:number]


@pytest.mark.parametrize("error", [StorageTransientError, StorageFailedError], ids=["it may pass", "it may not"])
def test_a_pack_that_the_storage_cannot_read_is_ignored(storage: Storage, error: type[CkptError]) -> None:
    """A bad sector damages only the copy. The entries have their own sectors."""
    filled(storage, *range(6))

    class BadSector(WrappedStorage):
        def read(self, path: str) -> bytes:
            if "pack-" in path:
                raise error(verb="read", uri=path, reason="Input/output error")
            return super().read(path)

    assert bodies(reader(BadSector(storage)).load()) == [*range(6)]


def test_a_missing_entry_is_damage_even_if_a_pack_has_it(storage: Storage) -> None:
    filled(storage, *range(6))
    storage.delete("log/00000002.json")
    with pytest.raises(CorruptLogError, match=r"00000002\.json.*missing") as error:
        reader(storage).load()
    assert bodies(error.value.data["intact"]) == [0, 1]


def test_an_append_succeeds_if_its_pack_cannot_be_written(storage: Storage) -> None:
    class NoPacks(WrappedStorage):
        def create(self, path: str, data: bytes) -> None:
            if "pack-" in path:
                raise StorageTransientError(verb="create", uri=path, reason="busy")
            super().create(path, data)

    log = writer(NoPacks(storage))
    assert [log.append(number).number for number in range(6)] == [*range(6)]
    assert packs(storage) == []
    assert bodies(reader(storage).load()) == [*range(6)]


def test_entries_that_are_too_large_together_are_not_packed(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each writer would hold about 70 MB of dropped entries, if its batches have hundreds of files."""
    monkeypatch.setattr(log_packs, "MOST", 1000)
    log = filled(storage, "a" * 500, "b" * 500, 2, 3)
    assert log._packs._lines == []
    for number in range(4, 8):
        log.append(number)
    assert packs(storage) == [SECOND]
    assert bodies(reader(storage).load()) == ["a" * 500, "b" * 500, *range(2, 8)]


def test_an_append_succeeds_if_its_pack_runs_out_of_memory(storage: Storage) -> None:
    """A writer that gets an error does not know of its entry, and would publish the batch again after it."""

    class NoMemory(WrappedStorage):
        def create(self, path: str, data: bytes) -> None:
            if "pack-" in path:
                raise MemoryError
            super().create(path, data)

    log = SubtaskLog(NoMemory(storage), "log")
    log.load()
    log.open(AttemptId(1, 0, "a"))
    for number in range(PACK):
        log.append_batch(Batch(number, {}))
    assert log.position == len(log.records()) == PACK + 1


def test_a_truncation_deletes_packs_below_the_head(storage: Storage) -> None:
    log = filled(storage, "open", *range(1, 11))
    log.truncate(6)
    assert packs(storage) == [SECOND]
    counting = Counting(storage)
    entries = reader(counting).load()
    assert [(entry.number, entry.kept) for entry in entries] == [(0, True), *((n, False) for n in range(6, 11))]
    assert SECOND in counting.reads
    assert "log/00000006.json" not in counting.reads
    log.truncate(8)
    assert packs(storage) == []


@pytest.mark.slow
def test_a_log_reads_the_same_with_and_without_packs(tmp_path: Path) -> None:
    """Random appends, truncations and new writers give the same log."""
    for seed in range(60):
        rng = random.Random(seed)
        both = [open_storage(tmp_path / f"{seed}-{pack}") for pack in (0, 3)]
        logs = [writer(storage, pack=pack) for storage, pack in zip(both, (0, 3), strict=True)]
        for step in range(60):
            match rng.choice("aaaaaatw"):
                case "a":
                    body = rng.choice([step, "open", {"rows": step}])
                    for log in logs:
                        log.append(body)
                case "t":
                    head = rng.randint(logs[0].head, logs[0].next_number)
                    for log in logs:
                        log.truncate(head)
                case "w":
                    logs = [writer(storage, pack=pack) for storage, pack in zip(both, (0, 3), strict=True)]
            plain, packed = ([(e.number, e.body, e.kept) for e in reader(storage).load()] for storage in both)
            assert plain == packed, (seed, step)
        assert packs(both[0]) == []


def use_the_log(storage: Storage) -> None:
    log = writer(storage, pack=2)
    log.load()
    log.take_over("open")
    for number in range(1, 7):
        log.append(number)
    log.truncate(5)


def test_a_log_can_be_continued_after_a_crash_at_any_verb(tmp_path: Path) -> None:
    counting = CrashingStorage(open_storage(tmp_path / "whole"))
    use_the_log(counting)
    assert sum("pack-" in verb for verb in counting.verbs.log) == 5  # three created, two deleted
    for at, when in crash_points(counting.verbs.count):
        storage = open_storage(tmp_path / f"{at}-{when}")
        with pytest.raises(SimulatedCrash):
            use_the_log(CrashingStorage(storage, at, when))
        entries = reader(storage).load()
        for name in packs(storage):
            storage.delete(name)
        assert reader(storage).load() == entries, (at, when)
        log = writer(storage, pack=2)
        log.load()
        log.append("after")
        assert reader(storage).load()[-1].body == "after"


def test_a_subtask_log_is_packed(storage: Storage) -> None:
    log = SubtaskLog(storage, "log")
    log.load()
    log.open(AttemptId(1, 0, "a"))
    for number in range(PACK):
        log.append_batch(Batch(number, {}, splits=(str(number),)))
    assert packs(storage) == [f"log/pack-00000000-{PACK - 1:08d}.json"]
    counting = Counting(storage)
    again = SubtaskLog(counting, "log")
    again.load()
    assert len(counting.reads) == 3  # the pack, its last entry, and the entry after it
    assert again.records() == log.records()
