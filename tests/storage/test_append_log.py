"""The append log: R3 (numbers, truncation, zombies), R17 (lost replies, damage)."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.model.errors import DamagedFormError
from airflow_provider_ckpt.storage.errors import (
    BelowHeadError,
    CorruptLogError,
    LostRaceError,
    NewerFormatError,
    StorageDeniedError,
    StorageReadOnlyError,
    StorageTransientError,
)
from airflow_provider_ckpt.storage.log.append_log import AppendLog, Entry
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import (
    CrashingStorage,
    LossyStorage,
    SimulatedCrash,
    WrappedStorage,
    crash_points,
)
from tests.costs.meter import Meter
from tests.support.checksum import without_checksum
from tests.support.syscalls import refusing

GOLDEN = Path(__file__).parent.parent / "golden" / "append-log-v1"
KEEPS_MORE = GOLDEN.parent / "append-log-v1-keeps-more"


def is_open(entry: Entry) -> bool:
    return str(entry.body).startswith("open")


def open_log(storage: Storage, *, skip_kept: bool = False) -> AppendLog:
    return AppendLog(storage, "log", format="test", keep=is_open, skip_kept=skip_kept)


@pytest.fixture(params=[1, 4], ids=["one after the other", "several at once"])
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> Storage:
    """Open a storage that is read like a disk, or like a remote store."""
    opened = open_storage(tmp_path / "root")
    opened.requests_at_once = request.param
    return opened


def filled(storage: Storage, *bodies: Any) -> AppendLog:
    log = open_log(storage)
    for body in bodies:
        log.append(body)
    return log


def bodies(entries: list[Entry]) -> list[Any]:
    return [entry.body for entry in entries]


def test_entries_are_read_in_the_order_they_were_appended(storage: Storage) -> None:
    filled(storage, "a", {"b": [1, None]}, 3)
    entries = open_log(storage).load()
    assert bodies(entries) == ["a", {"b": [1, None]}, 3]
    assert [entry.number for entry in entries] == [0, 1, 2]
    assert len({entry.writer for entry in entries}) == 3


def test_several_entries_of_a_remote_store_are_read_at_once(storage: Storage) -> None:
    """The store answers no read until three are in progress."""

    class Far(WrappedStorage):
        together = threading.Barrier(3, timeout=60)

        def read(self, path: str) -> bytes:
            self.together.wait()
            return super().read(path)

    filled(storage, *range(9))
    far = Far(storage)
    far.requests_at_once = 3
    assert bodies(open_log(far).load()) == [*range(9)]


def test_an_empty_log_is_empty(storage: Storage) -> None:
    log = open_log(storage)
    assert log.load() == []
    assert log.tail() == []
    assert (log.head, log.next_number, log.is_overtaken()) == (0, 0, False)


def test_entry_numbers_beyond_eight_digits_are_read_in_order(storage: Storage) -> None:
    numbers = (99_999_998, 99_999_999, 100_000_000, 100_000_001)
    for number in numbers:
        entry = {"format": "airflow-provider-ckpt/test", "version": 1, "number": number, "writer": "w", "body": 0}
        storage.create(f"log/{number:08d}.json", json.dumps(entry).encode())
    head = {"format": "airflow-provider-ckpt/test-head", "version": 1, "head": numbers[0], "kept": []}
    storage.create(f"log/head-{numbers[0]:08d}.json", json.dumps(head).encode())
    log = open_log(storage)
    assert [entry.number for entry in log.load()] == list(numbers)
    assert log.append("next").number == 100_000_002


def test_a_tail_returns_new_entries_without_a_listing(storage: Storage) -> None:
    log = filled(storage, 0)
    lists: list[str] = []

    class Watched(WrappedStorage):
        def list(self, path: str) -> Any:
            lists.append(path)
            return super().list(path)

    reader = open_log(Watched(storage))
    reader.load()
    log.append(1)
    log.append(2)
    lists.clear()
    assert bodies(reader.tail()) == [1, 2]
    assert lists == []
    assert reader.tail() == []


def test_r3_the_loser_of_a_race_gets_the_winners_entry_and_may_continue(storage: Storage) -> None:
    first, second = open_log(storage), open_log(storage)
    first.load(), second.load()
    first.append("first")
    assert second.is_overtaken()
    with pytest.raises(LostRaceError) as raised:
        second.append("second")
    assert raised.value.data["entry"].body == "first"
    assert bodies(second.tail()) == ["first"]
    assert second.append("second").number == 1


def test_r3_racing_threads_get_distinct_numbers(storage: Storage) -> None:
    start = threading.Barrier(4)

    def write(writer: int) -> None:
        log = open_log(storage)
        log.load()
        start.wait()
        written = 0
        while written < 10:
            try:
                log.append([writer, written])
                written += 1
            except LostRaceError:
                log.tail()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = bodies(open_log(storage).load())
    assert sorted(map(tuple, written)) == [(writer, n) for writer in range(4) for n in range(10)]
    for writer in range(4):
        assert [n for w, n in written if w == writer] == list(range(10))


def test_several_threads_may_append_to_one_log(storage: Storage) -> None:
    log = filled(storage)
    threads = [threading.Thread(target=lambda: [log.append(n) for n in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(bodies(open_log(storage).load())) == sorted(list(range(10)) * 4)


# ---- R17: lost replies


@pytest.mark.parametrize("repeats", [False, True])
def test_r17_an_append_whose_reply_was_lost_succeeds(storage: Storage, repeats: bool) -> None:
    log = open_log(LossyStorage(storage, frozenset({2}), repeats=repeats))
    for body in ("a", "b", "c"):
        log.append(body)
    assert bodies(open_log(storage).load()) == ["a", "b", "c"]


class FailingCreation(WrappedStorage):
    """Storage whose creations fail while ``broken``. ``lands``: the creation takes effect nevertheless."""

    broken = False
    lands = False

    def create(self, path: str, data: bytes) -> None:
        if self.broken:
            if self.lands and not self.inner.exists(path):
                self.inner.create(path, data)
            raise StorageTransientError(verb="create", uri=path, reason="a test")
        super().create(path, data)


@pytest.mark.parametrize("lands", [False, True])
@pytest.mark.parametrize("same_body", [False, True])
def test_r17_the_next_append_settles_an_unknown_outcome(storage: Storage, lands: bool, same_body: bool) -> None:
    failing = FailingCreation(storage)
    log = filled(failing, "a")
    failing.broken, failing.lands = True, lands
    with pytest.raises(StorageTransientError):
        log.append("b")
    failing.broken = False
    log.append("b" if same_body else "c")
    expected = ["a", "b"] if same_body else ["a", "b", "c"] if lands else ["a", "c"]
    assert bodies(open_log(storage).load()) == expected
    assert log.next_number == len(expected)


def test_r17_the_tail_returns_an_append_that_failed_but_landed(storage: Storage) -> None:
    failing = FailingCreation(storage)
    log = filled(failing, "a")
    failing.broken, failing.lands = True, True
    with pytest.raises(StorageTransientError):
        log.append("b")
    assert bodies(log.tail()) == ["b"]


# ---- damage


@pytest.mark.parametrize(
    "damage", [b"", b'{"format": "airf', b"[]", b"\xff", b'{"format": "else", "version": 1}', b"{}"]
)
@pytest.mark.parametrize("where", [0, 1, 2])
def test_r17_a_damaged_entry_is_reported_with_the_intact_entries(storage: Storage, damage: bytes, where: int) -> None:
    filled(storage, "a", "b", "c")
    storage.replace(f"log/{where:08d}.json", damage)
    log = open_log(storage)
    with pytest.raises(CorruptLogError) as raised:
        log.load()
    assert bodies(raised.value.data["intact"]) == ["a", "b", "c"][:where]
    assert raised.value.data["last"] == (where == 2)
    assert f"log/{where:08d}.json" in str(raised.value)
    with pytest.raises(CorruptLogError):
        log.append("over the damage")


def test_an_entry_under_another_number_counts_as_damage(storage: Storage) -> None:
    filled(storage, "a", "b")
    storage.replace("log/00000001.json", storage.read("log/00000000.json"))
    with pytest.raises(CorruptLogError, match="number is 0"):
        open_log(storage).load()


def test_r3_a_gap_is_reported_and_never_filled(storage: Storage) -> None:
    filled(storage, "a", "b", "c")
    storage.delete("log/00000001.json")
    log = open_log(storage)
    with pytest.raises(CorruptLogError, match="missing") as raised:
        log.load()
    assert bodies(raised.value.data["intact"]) == ["a"]
    with pytest.raises(CorruptLogError):
        log.append("x")
    assert not storage.exists("log/00000001.json")


def test_a_damaged_tail_is_reported_to_a_reader_that_follows(storage: Storage) -> None:
    log = filled(storage, "a")
    reader = open_log(storage)
    reader.load()
    log.append("b")
    storage.create("log/00000002.json", b"")
    with pytest.raises(CorruptLogError) as raised:
        reader.tail()
    assert bodies(raised.value.data["intact"]) == ["b"]


def test_an_entry_of_a_newer_version_requires_an_upgrade(storage: Storage) -> None:
    AppendLog(storage, "log", format="test", version=3).append("new")
    with pytest.raises(NewerFormatError, match=r"version 3.*up to version 1.*upgrade"):
        open_log(storage).load()


# ---- R3: truncation


def test_r3_take_over_entries_survive_every_truncation(storage: Storage) -> None:
    log = filled(storage, "open 1", 1, 2, "open 2", 4, 5, 6)
    log.truncate(2)
    log.truncate(6)
    assert storage.list("log") == [
        "00000000.json",
        "00000003.json",
        "00000006.json",
        "head-00000006.json",
    ]
    entries = open_log(storage).load()
    assert [(e.number, e.body, e.kept) for e in entries] == [
        (0, "open 1", True),
        (3, "open 2", True),
        (6, 6, False),
    ]
    assert open_log(storage).head == 6


def test_r3_a_truncation_also_keeps_entries_by_its_own_rule(storage: Storage) -> None:
    log = AppendLog(storage, "log", format="test")
    for number in range(6):
        log.append(number)
    log.truncate(3, lambda entry: entry.body == 1)
    AppendLog(storage, "log", format="test").truncate(5, lambda entry: entry.body == 4)
    assert bodies(AppendLog(storage, "log", format="test").load()) == [1, 4, 5]


def test_r3_a_truncation_by_a_later_reader_keeps_the_same_entries(storage: Storage) -> None:
    filled(storage, "open 1", 1, "open 2", 3, 4).truncate(2)
    later = open_log(storage)
    later.load()
    later.truncate(5)
    assert bodies(open_log(storage).load()) == ["open 1", "open 2"]
    assert open_log(storage).append("next").number == 5


def test_r3_the_next_number_of_a_zombie_stays_taken_after_a_truncation(storage: Storage) -> None:
    zombie = filled(storage, "open 1", 1, 2)
    successor = open_log(storage)
    successor.load()
    successor.take_over("open 2")
    for number in range(500):
        successor.append(number)
    successor.truncate(400)
    with pytest.raises(LostRaceError) as raised:
        zombie.append("late")
    assert raised.value.data["entry"].body == "open 2"


def test_r3_a_paused_taker_notices_that_its_number_was_truncated(storage: Storage) -> None:
    owner = filled(storage, "open 1", 1)
    taker = open_log(storage)
    taker.load()
    for number in range(2, 10):
        owner.append(number)
    owner.truncate(6)
    with pytest.raises(LostRaceError) as raised:
        taker.take_over("open 2")
    assert raised.value.data["entry"] is None
    assert bodies(open_log(storage).load()) == ["open 1", 6, 7, 8, 9]
    taker.load()
    assert taker.take_over("open 2").number == 10
    with pytest.raises(LostRaceError):
        owner.append("late")


def test_r3_a_taker_notices_that_the_last_number_was_truncated(storage: Storage) -> None:
    """No entry follows the taker's own. Only the head, which has moved past it, shows the loss."""
    owner = filled(storage, "open 1", 1)
    taker = open_log(storage)
    taker.load()
    owner.append(2)
    owner.truncate(3)
    with pytest.raises(LostRaceError) as raised:
        taker.take_over("open 2")
    assert raised.value.data["entry"] is None
    taker.load()
    assert taker.take_over("open 2").number == 3


def test_r3_a_taker_just_below_the_head_loses_the_race(storage: Storage) -> None:
    """The taker's entry is the last one in a listing, but no reader ever reads it."""
    owner = filled(storage, "open 1", 1)
    taker = open_log(storage)
    taker.load()
    number = owner.append(2).number
    owner.truncate(number + 1)
    with pytest.raises(LostRaceError):
        taker.take_over("open 2")
    taker.load()
    assert taker.take_over("open 2").number == number + 1
    assert bodies(open_log(storage).load()) == ["open 1", "open 2"]


def test_r3_a_reader_below_the_head_fails_instead_of_skipping(storage: Storage) -> None:
    log = filled(storage, 0)
    reader = open_log(storage)
    reader.load()
    for number in range(1, 6):
        log.append(number)
    log.truncate(4)
    with pytest.raises(BelowHeadError, match="up to 4"):
        reader.tail()
    assert bodies(reader.load()) == [4, 5]


def test_r3_an_idle_reader_below_the_head_fails_in_time(storage: Storage) -> None:
    log = filled(storage, 0)
    reader = open_log(storage)
    reader.load()
    assert reader.tail() == []
    for number in range(1, 4):
        log.append(number)
    log.truncate(3)

    def poll() -> None:
        for _ in range(17):
            assert reader.tail() == []

    with pytest.raises(BelowHeadError):
        poll()


def test_r3_a_watchful_reader_below_the_head_fails_at_once(storage: Storage) -> None:
    """The next entry is absent, as if it had never been written."""
    log = filled(storage, "open 1", 1)
    reader = AppendLog(storage, "log", format="test", keep=is_open, watchful=True)
    reader.load()
    for _ in range(3):
        assert reader.tail() == []
    for body in ("open 2", 3, 4):
        log.append(body)
    log.truncate(4)
    assert bodies(reader.tail()) == ["open 2"]  # a kept entry, which still exists
    with pytest.raises(BelowHeadError):
        reader.tail()
    assert bodies(reader.load()) == ["open 1", "open 2", 4]


def test_r3_a_watchful_reader_does_not_rely_on_a_kept_entry(storage: Storage) -> None:
    """The last entry it read is a take-over, which is kept forever.

    So its existence proves nothing about later entries.
    """
    log = filled(storage, 0, "open 1")
    reader = AppendLog(storage, "log", format="test", keep=is_open, watchful=True)
    reader.load()
    for _ in range(3):
        assert reader.tail() == []
    for number in range(3):
        log.append(number)
    log.truncate(4)
    with pytest.raises(BelowHeadError):
        reader.tail()


def test_a_watchful_reader_makes_one_extra_request_per_poll(storage: Storage) -> None:
    filled(storage, "open 1", 1, 2).truncate(2)
    meter = Meter(storage)
    reader = AppendLog(meter, "log", format="test", keep=is_open, watchful=True)
    reader.load()
    meter.taken()
    for _ in range(20):
        assert reader.tail() == []
    assert meter.requests == {"read": 20, "exists": 20}


def test_additionally_kept_entries_stay_until_the_next_truncation(storage: Storage) -> None:
    log = filled(storage, "open 1", 1, 2, 3, 4, 5, 6, 7)
    log.truncate(5, besides=[2, 6])
    assert bodies(open_log(storage).load()) == ["open 1", 2, 5, 6, 7]
    again = open_log(storage)
    again.load()
    again.truncate(6, besides=[5])
    assert bodies(open_log(storage).load()) == ["open 1", 5, 6, 7]


def test_a_late_truncation_accepts_entries_that_are_already_deleted(storage: Storage) -> None:
    log = filled(storage, "open 1", 1, 2, 3, 4, 5, 6, 7)
    late = open_log(storage)
    late.load()
    log.truncate(5, besides=[4])
    late.truncate(6, besides=[2])
    assert bodies(open_log(storage).load()) == ["open 1", 4, 6, 7]


def test_r3_a_paused_truncation_cannot_move_the_head_back(storage: Storage) -> None:
    log = filled(storage, *range(8))

    class Paused(WrappedStorage):
        """Storage that truncates the log further just before the head record is written."""

        def create(self, path: str, data: bytes) -> None:
            log.truncate(6)
            super().create(path, data)

    zombie = open_log(Paused(storage))
    zombie.load()
    zombie.truncate(3)
    assert bodies(open_log(storage).load()) == [6, 7]


def test_r3_the_head_is_recorded_before_entries_are_deleted_in_order(storage: Storage) -> None:
    filled(storage, "open 1", 1, 2, 3, 4, 5).truncate(2)
    watched = WrappedStorage(storage)
    open_log(watched).truncate(5)
    assert watched.verbs.log == [
        "create log/head-00000005.json",
        *(f"delete log/0000000{number}.json" for number in (2, 3, 4)),
        "delete log/head-00000002.json",
    ]


def test_r3_the_first_head_record_decides_which_entries_stay(storage: Storage) -> None:
    """The loser of the race deletes as the existing record demands, not by its own rule for kept entries."""
    log = AppendLog(storage, "log", format="test")
    for number in range(6):
        log.append(number)

    class Raced(WrappedStorage):
        """Storage in which another process writes its head record first."""

        def create(self, path: str, data: bytes) -> None:
            with pytest.raises(SimulatedCrash):
                other = AppendLog(CrashingStorage(self.inner, 1, "after"), "log", format="test")
                other.truncate(4, lambda entry: entry.body == 2)
            super().create(path, data)

    AppendLog(Raced(storage), "log", format="test").truncate(4, lambda entry: entry.body == 3)
    assert bodies(AppendLog(storage, "log", format="test").load()) == [2, 4, 5]


def test_a_truncation_fails_if_an_entry_is_missing(storage: Storage) -> None:
    filled(storage, "open 1", 1, "open 2", 3, 4).truncate(1)
    log = AppendLog(storage, "log", format="test")
    log.load()
    storage.delete("log/00000002.json")
    with pytest.raises(CorruptLogError, match="missing"):
        log.truncate(4, is_open)
    assert [name for name in storage.list("log") if name.startswith("head")] == ["head-00000001.json"]


@pytest.mark.parametrize("truncated", [False, True])
def test_a_deleted_log_is_not_taken_for_an_idle_one(storage: Storage, truncated: bool) -> None:
    """The folder was deleted, or its disk is gone. Readers raise an error, and writers do not start a new log."""
    log = filled(storage, "a", "b", "c")
    if truncated:
        log.truncate(2)
    storage.delete_tree("log")
    with pytest.raises(CorruptLogError, match="is gone") as raised:
        log.tail()
    assert "log/00000002.json" in str(raised.value)
    with pytest.raises(CorruptLogError):
        log.append("d")
    assert storage.list("log") == []


def test_a_log_truncated_to_its_end_counts_as_idle(storage: Storage) -> None:
    log = filled(storage, "a", "b", "c")
    reader = open_log(storage)
    reader.load()
    log.truncate(3)
    assert (log.tail(), reader.tail()) == ([], [])


def test_a_truncation_between_list_and_check_is_no_damage(storage: Storage) -> None:
    log = filled(storage, "a", "b", "c")

    class Raced(WrappedStorage):
        """Storage that truncates the log to its end after each listing, once the reader has loaded."""

        loaded = False

        def list(self, path: str) -> Any:
            names = super().list(path)
            if self.loaded:
                log.truncate(3)
            return names

    raced = Raced(storage)
    reader = open_log(raced)
    reader.load()
    raced.loaded = True
    assert reader.tail() == []
    assert storage.list("log") == ["head-00000003.json"]


class Torn(WrappedStorage):
    """Storage with lists that are interrupted by truncations.

    ``lists``: functions for the next listings. Each gets the names at its start, may truncate, and returns the names to
    show.
    """

    lists: tuple[Callable[[list[str]], list[str]], ...] = ()

    def list(self, path: str) -> Any:
        names = super().list(path)
        if not self.lists:
            return names
        first, *rest = self.lists
        self.lists = tuple(rest)
        return first(names)


def test_a_listing_slower_than_a_truncation_hides_no_kept_entry(
    storage: Storage,
) -> None:
    """A journal with a thousand claims needs several pages of a store's listing, or several reads of a folder.

    The first page has the entries, because digits sort before letters.
    """
    log = filled(storage, "open 1", *range(1, 5))

    def compacted(before: list[str]) -> list[str]:
        log.append("all before")
        log.truncate(5)
        return [*before, "head-00000005.json"]

    torn = Torn(storage)
    torn.lists = (compacted,)
    assert bodies(open_log(torn).load()) == ["open 1", "all before"]


def test_an_existing_kept_entry_missing_in_a_listing_is_no_damage(storage: Storage) -> None:
    """A folder on a disk is listed in no order. The list may miss some of the files created meanwhile."""
    log = filled(storage, "open 1")

    def taken_over(before: list[str]) -> list[str]:
        log.append("open 2")
        log.append("all before")
        log.truncate(2)
        return [*before, "00000002.json", "head-00000002.json"]

    torn = Torn(storage)
    torn.lists = (taken_over,)
    assert bodies(open_log(torn, skip_kept=True).load()) == ["all before"]


def test_a_listing_slower_than_a_truncation_shows_no_damage(storage: Storage) -> None:
    """The log is truncated when the reader reaches an entry, so the reader lists the head records.

    A second truncation runs during that listing, which still shows only the oldest record.
    """
    log = filled(storage, "open 1", *range(1, 9))
    log.truncate(2)

    def truncated(before: list[str]) -> list[str]:
        log.truncate(6)
        return ["head-00000002.json"]

    class TruncatedMeanwhile(Torn):
        def read(self, path: str) -> bytes:
            if path == "log/00000002.json" and self.lists == ():
                self.lists = (truncated,)
                log.truncate(4)
            return super().read(path)

    assert bodies(open_log(TruncatedMeanwhile(storage)).load()) == ["open 1", 6, 7, 8]


def test_r3_a_take_over_that_no_listing_shows_is_refused(storage: Storage) -> None:
    class Forgetful(WrappedStorage):
        def list(self, path: str) -> Any:
            return [name for name in super().list(path) if name != "00000001.json"]

    filled(storage, "open 1")
    with pytest.raises(CorruptLogError, match="no list shows it"):
        open_log(Forgetful(storage)).take_over("open 2")


# ---- an error is no absence


@pytest.mark.parametrize("verb", ["is_overtaken", "tail", "check_head", "load", "take_over", "append", "truncate"])
@pytest.mark.parametrize("kind", [errno.EIO, errno.ESTALE, errno.EACCES])
def test_a_fence_that_cannot_be_checked_is_not_passed(tmp_path: Path, verb: str, kind: int) -> None:
    storage = open_storage(tmp_path / "root")
    log = filled(storage, "open 1", 1, 2)
    log.load()
    needed: dict[str, list[Any]] = {"take_over": ["open 2"], "append": [3], "truncate": [2]}
    expected = (StorageDeniedError, StorageReadOnlyError) if kind == errno.EACCES else StorageTransientError
    with refusing(tmp_path / "root", kind), pytest.raises(expected):
        getattr(log, verb)(*needed.get(verb, []))
    assert bodies(open_log(storage).load()) == ["open 1", 1, 2]
    assert bodies(log.tail()) == []


def test_a_truncation_beyond_the_end_is_refused(storage: Storage) -> None:
    log = filled(storage, 0, 1)
    with pytest.raises(TerminalError, match="cannot be truncated up to"):
        log.truncate(3)
    log.truncate(2)
    assert open_log(storage).load() == []
    assert open_log(storage).append("next").number == 2


def test_a_truncation_backwards_does_nothing(storage: Storage) -> None:
    log = filled(storage, *range(5))
    log.truncate(3)
    log.truncate(1)
    assert bodies(open_log(storage).load()) == [3, 4]


def test_a_load_during_truncations_gives_a_consistent_log(storage: Storage) -> None:
    log = filled(storage, "open 1", *range(1, 20))

    class Racing(WrappedStorage):
        """Truncates further whenever the reader has listed."""

        heads = iter((5, 9, 14))

        def list(self, path: str) -> Any:
            names = super().list(path)
            head = next(self.heads, None)
            if head is not None:
                log.truncate(head)
            return names

    assert bodies(open_log(Racing(storage)).load()) == ["open 1", *range(14, 20)]


def test_a_listed_but_unreadable_head_record_is_a_transient_error(storage: Storage) -> None:
    filled(storage, 0, 1).truncate(1)

    class Stale(WrappedStorage):
        def list(self, path: str) -> Any:
            return [*super().list(path), "head-00000009.json"]

    with pytest.raises(StorageTransientError, match="head record"):
        open_log(Stale(storage)).load()


# ---- crashes


def use_the_log(storage: Storage) -> None:
    log = open_log(storage)
    log.load()
    log.take_over("open")
    for number in range(5):
        log.append(number)
    log.truncate(3)
    log.append(5)
    log.truncate(6)


def test_a_log_can_be_continued_after_a_crash_at_any_verb(tmp_path: Path) -> None:
    counting = CrashingStorage(open_storage(tmp_path / "whole"))
    use_the_log(counting)
    whole = ["open", 0, 1, 2, 3, 4, 5]
    assert counting.verbs.count > 12
    for at, when in crash_points(counting.verbs.count):
        storage = open_storage(tmp_path / f"{at}-{when}")
        with pytest.raises(SimulatedCrash):
            use_the_log(CrashingStorage(storage, at, when))
        log = open_log(storage)
        entries = log.load()
        numbered = [entry.number for entry in entries if not entry.kept]
        assert numbered == list(range(log.head, log.next_number)), (at, when)
        assert bodies(entries) == [whole[entry.number] for entry in entries], (at, when)
        assert not entries or entries[0].body == "open", (at, when)
        log.append("after")
        log.truncate(log.next_number)
        left = [name for name in storage.list("log") if not name.startswith("head")]
        assert left == (["00000000.json"] if entries else []), (at, when)


# ---- format


def test_the_golden_log_is_read(tmp_path: Path) -> None:
    entries = AppendLog(open_storage(GOLDEN), "", format="test", keep=is_open).load()
    assert entries == [
        Entry(0, "5f1c0000a1b2c3d4", "open 1", kept=True),
        Entry(3, "5f1c0000a1b2c3d7", {"rows": 3, "path": "a/b"}),
        Entry(4, "5f1c0000a1b2c3d8", None),
    ]


@pytest.mark.parametrize(("golden", "more"), [(GOLDEN, {}), (KEEPS_MORE, {"besides": [1]})])
def test_a_new_log_equals_the_golden_log(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, golden: Path, more: dict[str, Any]
) -> None:
    nonces = iter(f"5f1c0000a1b2c3{number:x}" for number in range(0xD4, 0xE0))
    monkeypatch.setattr("secrets.token_hex", lambda size: next(nonces) if size == 8 else "")
    log = AppendLog(open_storage("memory://golden-log"), "", format="test", keep=is_open)
    for body in ("open 1", 1, 2, {"rows": 3, "path": "a/b"}, None):
        log.append(body)
    log.truncate(3, **more)
    written = open_storage("memory://golden-log")
    there = open_storage(golden)
    assert {name: without_checksum(written.read(name)) for name in written.list("")} == {
        name: there.read(name) for name in there.list("")
    }
    written.delete_tree("")


def test_a_log_with_additionally_kept_entries_is_read() -> None:
    log = AppendLog(open_storage(KEEPS_MORE), "", format="test", keep=is_open)
    assert [entry.number for entry in log.load()] == [0, 1, 3, 4]


class SlowToDelete(WrappedStorage):
    """Storage that calls ``meanwhile`` during each deletion."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def delete(self, path: str) -> None:
        self.meanwhile()
        super().delete(path)


def test_a_writer_does_not_wait_for_the_deletions_of_a_truncation(storage: Storage) -> None:
    """A thousand deletions take a minute in an object store."""
    slow = SlowToDelete(storage)
    log = AppendLog(slow, "log", format="test")
    for body in range(4):
        log.append(body)
    waited: list[bool] = []

    def append() -> None:
        writer = threading.Thread(target=log.append, args=("meanwhile",), daemon=True)
        writer.start()
        writer.join(20)
        waited.append(writer.is_alive())

    slow.meanwhile = append
    log.truncate(3)
    assert waited
    assert not any(waited)


def test_entries_before_an_error_are_returned_first() -> None:
    """The next call raises the error again. A reader that dropped the entries would lose their rows."""
    storage = open_storage("memory://error-after-entries")
    writer = AppendLog(storage, "log", format="test")
    reader = AppendLog(storage, "log", format="test")
    reader.load()
    writer.append(1)
    writer.append(2)
    AppendLog(storage, "log", format="test", version=2).append(3)
    assert bodies(reader.tail()) == [1, 2]
    for _ in range(2):
        with pytest.raises(NewerFormatError, match=r"00000002\.json"):
            reader.tail()


def test_an_unreadable_body_is_damage_that_names_the_entry() -> None:
    def parse(body: Any) -> int:
        if not isinstance(body, int):
            raise DamagedFormError(what=f"{body!r} is no number")
        return body * 10

    storage = open_storage("memory://damaged-body")
    writer = AppendLog(storage, "log", format="test")
    reader = AppendLog(storage, "log", format="test", parse=parse)
    for body in (1, 2, "three", 4):
        writer.append(body)
    with pytest.raises(CorruptLogError, match=r"00000002\.json is damaged: 'three' is no number") as error:
        reader.load()
    assert [entry.value for entry in error.value.data["intact"]] == [10, 20]
    with pytest.raises(CorruptLogError):
        reader.tail()
