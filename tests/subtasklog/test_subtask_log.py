"""Log of a subtask, and its single writer (R1, R3, R4, R11)."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.errors import BatchConflictError, EndedLogError, LogFencedError
from airflow_provider_ckpt.subtasklog.log_truncation import LogTruncation
from airflow_provider_ckpt.subtasklog.records import Barrier, Batch, Open, Record
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.testing.crash import (
    CrashingStorage,
    LossyStorage,
    SimulatedCrash,
    Verbs,
    When,
    WrappedStorage,
    crash_points,
)
from tests.subtasklog.samples import batch, batch_ids, loaded_log


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def opened(storage: Storage, epoch: int = 1, continues_at: int | None = None) -> SubtaskLog:
    log = SubtaskLog(storage, "log")
    log.load()
    log.open(AttemptId(epoch, 0, f"a{epoch}"), continues_at)
    return log


def truncate(storage: Storage, head: int) -> frozenset[int]:
    return LogTruncation(storage, "log", lambda: None).truncate(head, None)


# ---- R1


def test_r1_a_batch_is_one_entry_and_its_position_is_returned(storage: Storage) -> None:
    log = opened(storage)
    assert [log.append_batch(batch(0)), log.append_batch(batch(1))] == [1, 2]
    assert loaded_log(storage).state.last_batch == batch(1)


def test_r1_publishing_a_batch_again_with_equal_offsets_does_nothing(storage: Storage) -> None:
    log = opened(storage)
    position = log.append_batch(batch(0))
    assert log.append_batch(batch(0, files=2)) == position
    assert loaded_log(storage).state.last_batch == batch(0)
    again = opened(storage, epoch=2)
    assert again.append_batch(batch(0)) == position
    assert batch_ids(again) == [0]


def test_r1_a_known_batch_with_other_offsets_is_a_hard_error(storage: Storage) -> None:
    log = opened(storage)
    log.append_batch(batch(0))
    with pytest.raises(BatchConflictError, match=r"batch 0 of log.* is published with offsets"):
        log.append_batch(batch(0, at=9))
    assert batch_ids(loaded_log(storage)) == [0]


def test_r1_a_batch_below_the_last_one_is_refused(storage: Storage) -> None:
    log = opened(storage)
    log.append_batch(batch(4))
    with pytest.raises(BatchConflictError, match="was offered after batch"):
        log.append_batch(batch(3))


def test_r21_batch_ids_rise_but_need_not_be_consecutive(storage: Storage) -> None:
    log = opened(storage)
    log.append_batch(batch(1))
    log.append_batch(batch(5))
    assert batch_ids(log) == [1, 5]


def test_r1_a_barrier_is_the_fold_of_what_precedes_it(storage: Storage) -> None:
    log = opened(storage)
    log.append_batch(batch(0, inputs={"e": 3}))
    first = log.barrier(1, 1)
    log.append_batch(batch(1, inputs={"e": 5}))
    second = log.barrier(1, 2)
    assert (first.position, first.batch_id, dict(first.inputs)) == (2, 0, {"e": 3})
    assert (second.position, second.batch_id, dict(second.inputs)) == (4, 1, {"e": 5})
    for number, record in loaded_log(storage).records():
        if isinstance(record, Barrier):
            assert record.snapshot.position == number


def test_a_barrier_before_any_batch_snapshots_nothing(storage: Storage) -> None:
    snapshot = opened(storage).barrier(1, 1)
    assert (snapshot.batch_id, snapshot.finished, dict(snapshot.inputs)) == (None, False, {})


def test_an_existing_barrier_is_not_appended_again(storage: Storage) -> None:
    log = opened(storage)
    log.append_batch(batch(0))
    first = log.barrier(1, 1)
    log.append_batch(batch(1))
    assert log.barrier(1, 1) == first
    assert loaded_log(storage).state.barriers == {(1, 1): first}


def test_r10_the_same_checkpoint_number_of_another_epoch_is_another_barrier(storage: Storage) -> None:
    opened(storage).barrier(1, 1)
    log = opened(storage, epoch=2)
    log.append_batch(batch(0))
    assert log.barrier(2, 1).batch_id == 0


# ---- R3


def test_r3_the_fencing_error_names_the_next_attempt(storage: Storage) -> None:
    zombie = opened(storage)
    zombie.append_batch(batch(0))
    zombie.check_fenced()
    opened(storage, epoch=2)
    with pytest.raises(LogFencedError, match="attempt 0002-a2 of epoch 2"):
        zombie.check_fenced()
    with pytest.raises(LogFencedError):
        zombie.append_batch(batch(1))
    with pytest.raises(LogFencedError):
        zombie.barrier(1, 1)
    assert batch_ids(loaded_log(storage)) == [0]


def test_r3_an_overtaken_attempt_cannot_open_the_log(storage: Storage) -> None:
    late = loaded_log(storage)
    opened(storage, epoch=2).append_batch(batch(0))
    with pytest.raises(LogFencedError):
        late.open(AttemptId(1, 0, "a1"))
    assert batch_ids(loaded_log(storage)) == [0]


def test_r3_a_batch_published_between_reading_and_opening_counts(storage: Storage) -> None:
    before = opened(storage)
    successor = loaded_log(storage)
    before.append_batch(batch(0))
    assert successor.open(AttemptId(2, 0, "a2")).last_batch == batch(0)


def test_r3_an_attempt_is_fenced_by_the_next_one_of_its_epoch(storage: Storage) -> None:
    zombie = opened(storage)
    zombie.append_batch(batch(0))
    successor = loaded_log(storage)
    assert successor.open(AttemptId(1, 1, "b")).last_batch == batch(0)
    with pytest.raises(LogFencedError, match="attempt 0001-01-b of epoch 1") as raised:
        zombie.append_batch(batch(1))
    assert raised.value.data["attempt"] == AttemptId(1, 1, "b")
    successor.append_batch(batch(1))
    assert batch_ids(loaded_log(storage)) == [0, 1]


@pytest.mark.parametrize(
    ("held", "late"),
    [
        (AttemptId(1, 1, "b"), AttemptId(1, 0, "a")),
        (AttemptId(1, 1, "b"), AttemptId(1, 1, "a")),
        (AttemptId(1, 1, "b"), AttemptId(1, 1, "b")),
        (AttemptId(2, 0, "b"), AttemptId(1, 5, "a")),
    ],
    ids=["lower number", "same number", "itself", "lower epoch"],
)
@pytest.mark.parametrize("read", ["before", "after"])
def test_r3_an_attempt_that_is_not_later_does_not_open_the_log(
    storage: Storage, held: AttemptId, late: AttemptId, read: str
) -> None:
    """The refused attempt may have read the open of the current one, or may lose the race for the number."""
    paused = loaded_log(storage)
    holder = loaded_log(storage)
    holder.open(held)
    if read == "after":
        paused.load()
    with pytest.raises(
        LogFencedError, match=f"held by attempt {held} of epoch {held.epoch}; {late} does not come after"
    ):
        paused.open(late)
    holder.append_batch(batch(0))
    assert batch_ids(loaded_log(storage)) == [0]


def test_r3_a_truncation_keeps_the_fence_against_a_zombie(storage: Storage) -> None:
    zombie = opened(storage)
    zombie.append_batch(batch(0))
    successor = opened(storage, epoch=2)
    for number in range(1, 20):
        successor.append_batch(batch(number))
    successor.forget(18, truncate(storage, 18))
    with pytest.raises(LogFencedError):
        zombie.append_batch(batch(1))
    reader = loaded_log(storage)
    assert [record.epoch for _, record in reader.records() if isinstance(record, Open)] == [1, 2]
    assert batch_ids(reader) == batch_ids(successor) == [15, 16, 17, 18, 19]
    assert reader.state.opened is not None
    assert reader.state.opened.epoch == 2


def test_r3_an_attempt_paused_during_a_truncation_opens_at_the_tail(storage: Storage) -> None:
    """The position that it would take is free again. An open there would fence no attempt, and no reader would see
    it."""
    writer = opened(storage)
    writer.append_batch(batch(0))
    late = loaded_log(storage)
    for number in range(1, 12):
        writer.append_batch(batch(number))
    truncate(storage, 10)
    assert late.open(AttemptId(2, 0, "a2")).last_batch == batch(11)
    assert late.position == writer.position + 1
    with pytest.raises(LogFencedError, match="attempt 0002-a2"):
        writer.append_batch(batch(12))


class Telling(UserDict[str, int]):
    """Positions that call a function when they are read, which is a moment in the middle of writing them."""

    act: Callable[[], None] = staticmethod(lambda: None)

    def __iter__(self) -> Iterator[str]:
        self.act()
        return super().__iter__()


def test_r1_a_batch_published_during_a_barrier_comes_after_it(storage: Storage) -> None:
    """The batch arrives between the fold and the append of the barrier. Before the barrier, it would be in no
    checkpoint."""
    log, inputs, done = opened(storage), Telling({"e": 1}), Event()
    log.append_batch(Batch(0, {}, inputs=inputs))

    def publish() -> None:
        log.append_batch(batch(1))
        done.set()

    other = Thread(target=publish)

    def meanwhile() -> None:
        inputs.act = lambda: None
        other.start()
        done.wait(0.5)  # in vain: it has to wait for the barrier

    inputs.act = meanwhile
    snapshot = log.barrier(1, 1)
    other.join(60)
    kinds = [(number, type(record).__name__) for number, record in loaded_log(storage).records()]
    assert kinds == [(0, "Open"), (1, "Batch"), (2, "Barrier"), (3, "Batch")]
    assert (snapshot.position, snapshot.batch_id) == (2, 0)


# ---- R4


def test_r4_an_open_is_never_void(storage: Storage) -> None:
    """The folder of its attempt is the only one left to resume from, and its number fences."""
    opened(storage).append_batch(batch(0))
    opened(storage, epoch=2).append_batch(batch(1))
    rewound = opened(storage, epoch=3, continues_at=2)
    assert batch_ids(rewound) == [0]
    for log in (rewound, loaded_log(storage)):
        assert [str(record.attempt) for _, record in log.records() if isinstance(record, Open)] == [
            "0001-a1",
            "0002-a2",
            "0003-a3",
        ]


def test_r4_a_rewind_voids_the_entries_after_it_for_every_reader(storage: Storage) -> None:
    log = opened(storage)
    log.append_batch(batch(0))
    kept = log.barrier(1, 1)
    log.append_batch(batch(1))
    log.barrier(1, 2)
    rewound = opened(storage, epoch=2, continues_at=kept.position + 1)
    assert batch_ids(rewound) == batch_ids(loaded_log(storage)) == [0]
    assert rewound.state.last_batch == batch(0)
    assert list(rewound.state.barriers) == [(1, 1)]
    rewound.append_batch(batch(1, at=5))
    assert loaded_log(storage).state.last_batch == batch(1, at=5)
    assert batch_ids(loaded_log(storage)) == [0, 1]


def test_r4_void_entries_stay_so_a_zombie_cannot_reuse_their_numbers(storage: Storage) -> None:
    zombie = opened(storage)
    for number in range(4):
        zombie.append_batch(batch(number))
    entries = set(storage.list("log"))
    opened(storage, epoch=2, continues_at=2)
    assert entries < set(storage.list("log"))
    with pytest.raises(LogFencedError):
        zombie.append_batch(batch(4))


def test_r4_an_end_of_data_after_the_rewind_is_void(storage: Storage) -> None:
    log = opened(storage)
    log.append_batch(batch(0))
    log.end_of_data("finish")
    log.end_of_partition()
    rewound = opened(storage, epoch=2, continues_at=2)
    assert (rewound.state.end_of_data, rewound.state.closed) == (None, False)
    rewound.append_batch(batch(1))
    assert batch_ids(rewound) == [0, 1]


def test_r4_records_from_a_position_leave_out_the_void_ones(storage: Storage) -> None:
    log = opened(storage)
    for number in range(4):
        log.append_batch(batch(number))
    rewound = opened(storage, epoch=2, continues_at=3)
    assert [number for number, record in rewound.records(1) if isinstance(record, Batch)] == [1, 2]


# ---- R11


def test_r11_no_batch_follows_an_end_of_data_but_barriers_do(storage: Storage) -> None:
    log = opened(storage)
    log.append_batch(batch(0))
    log.end_of_data("finish")
    with pytest.raises(EndedLogError, match="end of data"):
        log.append_batch(batch(1))
    assert log.barrier(1, 1).finished
    again = opened(storage, epoch=2)
    assert again.state.end_of_data == "finish"
    with pytest.raises(EndedLogError):
        again.append_batch(batch(1))


def test_r11_the_last_batch_may_be_offered_again_after_the_end(storage: Storage) -> None:
    log = opened(storage)
    position = log.append_batch(batch(0))
    log.end_of_data("finish")
    assert log.append_batch(batch(0)) == position


def test_r11_nothing_follows_an_end_of_partition(storage: Storage) -> None:
    log = opened(storage)
    log.end_of_data("finish")
    log.end_of_data("drain")
    log.end_of_partition()
    log.end_of_partition()
    with pytest.raises(EndedLogError, match="end of partition"):
        log.barrier(1, 1)
    assert log.position == 3
    assert loaded_log(storage).state.end_of_data == "finish"


# ---- faults


HEAD = 4


def life(storage: Storage, head: int = HEAD) -> None:
    log = SubtaskLog(storage, "log")
    log.load()
    log.open(AttemptId(1, 0, "a1"))
    log.append_batch(batch(0))
    log.barrier(1, 1)
    log.append_batch(batch(1))
    log.append_batch(batch(2))
    log.forget(head, truncate(storage, head))
    log.barrier(1, 2)
    log.end_of_data("finish")
    log.barrier(1, 3)
    log.end_of_partition()


def verbs_of_a_life(tmp_path: Path) -> int:
    storage = WrappedStorage(open_storage(tmp_path / "measure"))
    life(storage)
    return storage.verbs.count


def test_a_crash_at_any_verb_leaves_a_prefix_of_the_log(tmp_path: Path) -> None:
    whole = dict(records_without_truncation(tmp_path))
    for at, when in crash_points(verbs_of_a_life(tmp_path)):
        inner = open_storage(tmp_path / f"{when}-{at}")
        with pytest.raises(SimulatedCrash):
            life(CrashingStorage(inner, at, when))
        left = dict(loaded_log(inner).records())
        assert left == {number: whole[number] for number in left}, (at, when)
        behind_the_head = [number for number in left if number >= HEAD]
        assert behind_the_head == [*range(HEAD, max(left, default=-1) + 1)], (at, when)


def records_without_truncation(tmp_path: Path) -> list[tuple[int, Record]]:
    storage = open_storage(tmp_path / "untruncated")
    life(storage, head=0)
    return loaded_log(storage).records()


def test_the_next_attempt_completes_the_log_after_any_crash(tmp_path: Path) -> None:
    for at, when in crash_points(verbs_of_a_life(tmp_path)):
        inner = open_storage(tmp_path / f"{when}-{at}")
        with pytest.raises(SimulatedCrash):
            life(CrashingStorage(inner, at, when))
        log = opened(inner, epoch=2)
        if not log.state.closed:
            last = log.state.last_batch
            for number in range(0 if last is None else last.batch_id, 3):
                if log.state.end_of_data is None:
                    log.append_batch(batch(number))
            log.end_of_data("finish")
            log.end_of_partition()
        state = loaded_log(inner).state
        assert (state.closed, state.end_of_data, state.last_batch) == (True, "finish", batch(2)), (at, when)
        ids = batch_ids(loaded_log(inner))
        assert ids == sorted(set(ids)), (at, when)


@pytest.mark.parametrize("repeats", [True, False], ids=["answered again", "transient"])
def test_r17_a_lost_reply_neither_fences_nor_appends_twice(tmp_path: Path, repeats: bool) -> None:
    for lost in range(1, verbs_of_a_life(tmp_path) + 1):
        inner = open_storage(tmp_path / str(lost))
        storage = LossyStorage(inner, frozenset({lost}), repeats=repeats)
        try:
            life(storage)
        except StorageTransientError:
            # a truncation may be abandoned and repeated later, but no entry is lost
            assert "head-" in storage.verbs.log[lost - 1] or storage.verbs.log[lost - 1].startswith("delete")
            continue
        assert loaded_log(inner).state.closed
        ids = batch_ids(loaded_log(inner))
        assert ids == sorted(set(ids))


class GoneAfter(WrappedStorage):
    """Storage where an entry lands but its reply is lost, and which then fails until ``back`` is set."""

    back = False

    def create(self, path: str, data: bytes) -> None:
        if self.back:
            self.inner.create(path, data)
            return
        if not self.inner.exists(path):
            self.inner.create(path, data)
        raise StorageTransientError(verb="create", uri=path, reason="gone")

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)


def test_r1_an_append_of_unknown_outcome_blocks_the_log_until_reload(storage: Storage) -> None:
    log = opened(storage)
    log.append_batch(batch(0))
    faulty = GoneAfter(storage)
    log = SubtaskLog(faulty, "log")
    log.load()
    faulty.back = True
    log.open(AttemptId(2, 0, "a2"))
    faulty.back = False
    with pytest.raises(StorageTransientError):
        log.append_batch(batch(1))  # it landed, but the log does not know
    faulty.back = True
    with pytest.raises(StorageTransientError):
        log.barrier(2, 1)  # it would not be the fold of the entries before it
    with pytest.raises(StorageTransientError):
        log.check_fenced()
    again = opened(storage, epoch=3)
    assert again.state.last_batch == batch(1)
    again.append_batch(batch(1))
    assert batch_ids(again) == [0, 1]


# ---- a barrier that could not be appended


class FlakyBarriers(WrappedStorage):
    """Storage where the first try to append barrier ``failing`` fails.

    ``lands``: "never"; "though it failed"; or "late", when a request that timed out lands as another append wants its
    position.
    """

    def __init__(self, inner: Storage, lands: str, failing: int = 1) -> None:
        super().__init__(inner)
        self.lands, self.failing, self.tries = lands, failing, 0
        self.late: tuple[str, bytes] | None = None

    def create(self, path: str, data: bytes) -> None:
        if self.late is not None:
            (where, data), self.late = self.late, None
            self.inner.create(where, data)
        if f'"checkpoint": {self.failing}'.encode() in data and self.tries < 3:  # the append log tries thrice
            self.tries += 1
            if self.tries == 3 and self.lands == "though it failed":
                self.inner.create(path, data)
            elif self.tries == 3 and self.lands == "late":
                self.late = (path, data)
            raise StorageTransientError(verb="create", uri=self.full_uri(path), reason="gone")
        self.inner.create(path, data)


def barriers(log: SubtaskLog) -> list[tuple[int, int]]:
    """Return (checkpoint, position) of each barrier. Check that each is the fold of exactly the entries before it."""
    numbered = [(number, record) for number, record in log.records() if isinstance(record, Barrier)]
    assert all(record.snapshot.position == number for number, record in numbered)
    published = dict(log.records())
    for number, record in numbered:
        before = [record.batch_id for n, record in published.items() if n < number and isinstance(record, Batch)]
        assert record.snapshot.batch_id == (before[-1] if before else None)
    return [(record.checkpoint, number) for number, record in numbered]


def with_a_failed_barrier(storage: Storage, lands: str) -> SubtaskLog:
    log = opened(FlakyBarriers(storage, lands))
    log.append_batch(batch(0))
    with pytest.raises(StorageTransientError):
        log.barrier(1, 1)
    return log


LANDS = pytest.mark.parametrize("lands", ["never", "though it failed", "late"])


@LANDS
def test_r1_a_barrier_after_a_failed_one_is_the_fold_of_what_precedes_it(storage: Storage, lands: str) -> None:
    log = with_a_failed_barrier(storage, lands)
    snapshot = log.barrier(1, 2)
    assert snapshot.position == 3
    assert barriers(loaded_log(storage)) == barriers(log) == [(1, 2), (2, 3)]


@LANDS
def test_r1_a_batch_after_a_failed_barrier_follows_it_in_the_log(storage: Storage, lands: str) -> None:
    log = with_a_failed_barrier(storage, lands)
    assert log.append_batch(batch(1)) == 3
    log.barrier(1, 2)
    log.end_of_data("finish")
    assert barriers(loaded_log(storage)) == barriers(log) == [(1, 2), (2, 4)]
    assert loaded_log(storage).state == log.state


@LANDS
def test_a_repeated_barrier_after_a_failure_is_written_once(storage: Storage, lands: str) -> None:
    log = with_a_failed_barrier(storage, lands)
    assert log.barrier(1, 1).position == 2
    assert barriers(loaded_log(storage)) == [(1, 2)]


@LANDS
def test_a_failed_barrier_does_not_fence_its_own_writer(storage: Storage, lands: str) -> None:
    log = with_a_failed_barrier(storage, lands)
    log.check_fenced()
    log.barrier(1, 2)
    log.check_fenced()
    assert barriers(log) == [(1, 2), (2, 3)]


@LANDS
def test_r3_a_failed_barrier_does_not_hide_a_fence(storage: Storage, lands: str) -> None:
    log = with_a_failed_barrier(storage, lands)
    opened(storage, epoch=2)
    with pytest.raises(LogFencedError):
        log.barrier(1, 2)
    with pytest.raises(LogFencedError):
        log.check_fenced()
    with pytest.raises(LogFencedError):
        log.append_batch(batch(1))


def test_an_unsettled_barrier_blocks_other_entries(storage: Storage) -> None:
    flaky = FlakyBarriers(storage, "never")
    log = opened(flaky)
    for _ in range(2):
        flaky.tries = 0
        with pytest.raises(StorageTransientError):
            log.barrier(1, 1)
    flaky.tries = 0
    with pytest.raises(StorageTransientError):
        log.append_batch(batch(0))
    assert log.append_batch(batch(0)) == 2
    assert barriers(loaded_log(storage)) == [(1, 1)]


@LANDS
@pytest.mark.parametrize("when", ["before", "after"])
def test_r1_a_crash_around_a_failed_barrier_leaves_a_usable_log(tmp_path: Path, lands: str, when: When) -> None:
    def life_of(storage: Storage) -> None:
        log = with_a_failed_barrier(storage, lands)
        log.append_batch(batch(1))
        log.barrier(1, 2)

    count = Verbs()
    life_of(WrappedStorage(open_storage(tmp_path / "whole"), count))
    assert count.count >= 5
    for at in range(1, count.count + 1):
        inner = open_storage(tmp_path / str(at))
        with pytest.raises(SimulatedCrash):
            life_of(CrashingStorage(inner, at, when))
        log = opened(inner, epoch=2)
        last = log.state.last_batch
        for number in range(0 if last is None else last.batch_id, 3):
            log.append_batch(batch(number))
        log.barrier(2, 3)
        assert batch_ids(loaded_log(inner)) == [0, 1, 2]
        assert barriers(loaded_log(inner))[-1][0] == 3


FIRST, SECOND = (SupervisedTry("shop/r1/orders.subtask/0", number) for number in (1, 2))


@pytest.mark.parametrize("since", [None, SupervisedTry("somebody", 1)])
@pytest.mark.parametrize("is_behind", [True, False])
def test_w14_an_attempt_of_an_earlier_try_does_not_open_the_log(
    storage: Storage, since: SupervisedTry | None, is_behind: bool
) -> None:
    """It makes no difference which entries it had read, and which attempts have opened the log since."""
    late, later = SubtaskLog(storage, "log"), SubtaskLog(storage, "log")
    late.load()
    later.load()
    later.open(AttemptId(1, 1, "second"), supervised=SECOND)
    later.open(AttemptId(1, 2, "third"), supervised=since)
    if not is_behind:
        late.load()
    with pytest.raises(LogFencedError, match=r"by a later try .attempt 0001-02-third.* than number 1"):
        late.open(AttemptId(1, 3, "first"), supervised=FIRST)
    later.end_of_data("finish")


@pytest.mark.parametrize("next_one", [SECOND, SupervisedTry(SECOND.of, 3), SupervisedTry("another", 1), None])
def test_w14_an_attempt_of_the_same_or_an_unrelated_try_opens_the_log(
    storage: Storage, next_one: SupervisedTry | None
) -> None:
    log = SubtaskLog(storage, "log")
    log.load()
    log.open(AttemptId(1, 1, "second"), supervised=SECOND)
    log.open(AttemptId(1, 2, "next"), supervised=next_one)
    assert log.state.opened is not None
    assert log.state.opened.attempt.nonce == "next"


def test_r11_an_attempt_can_leave_a_closed_log_closed(storage: Storage) -> None:
    before, later = opened(storage), loaded_log(storage)
    before.end_of_partition()
    assert later.open(AttemptId(1, 1, "later"), unless_closed=True).closed
    assert [type(record).__name__ for _, record in loaded_log(storage).records()] == ["Open", "EndOfPartition"]
    before.check_fenced()  # no attempt has taken the log over
    assert loaded_log(storage).open(AttemptId(1, 1, "later"), 0).closed is False, "what is given up is written anew"
