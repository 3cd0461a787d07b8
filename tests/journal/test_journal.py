"""The journal: claims and fencing (R3), damage (R17), the write buffer (FLIP-383), compaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.errors import (
    CorruptJournalError,
    FencedError,
    JournalUnwritableError,
    UnknownEventError,
)
from airflow_provider_ckpt.journal.journal import Journal, list_jobs
from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.errors import InvalidJobIdError, StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import (
    CrashingStorage,
    LossyStorage,
    SimulatedCrash,
    WrappedStorage,
    crash_points,
)
from tests.journal.samples import WORKER, one_event_of_each, random_events
from tests.support.checksum import without_checksum

outcome_of = RequestOutcome.parse

GOLDEN = Path(__file__).parent.parent / "golden" / "journal-v1"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path / "root")


def claimed(storage: Storage, attempt: str = "t1", **options: Any) -> Journal:
    journal = Journal(storage, "orders", **options)
    journal.claim(attempt, WORKER, 100.0)
    return journal


def replayed(storage: Storage) -> JobState:
    return Journal(storage, "orders").replay()


def finished(number: int) -> ev.SubtaskFinished:
    return ev.SubtaskFinished(SubtaskId(f"v/{number}"), "t1", float(number))


def late(number: int) -> ev.LateFilesFound:
    return ev.LateFilesFound("history", (f"{number}.parquet",), False, float(number))


def entries(storage: Storage) -> int:
    return len(storage.list("orders/journal"))


def test_a_job_without_a_journal_has_an_empty_state(storage: Storage, tmp_path: Path) -> None:
    assert replayed(storage) == JobState("orders")
    assert not (tmp_path / "root").exists()


def test_written_events_are_replayed(storage: Storage) -> None:
    journal = claimed(storage)
    for event in one_event_of_each()[1:]:
        journal.write(event)
    assert replayed(storage) == journal.state
    assert replayed(storage).last_completed == 2


def test_a_job_id_that_is_no_folder_name_is_refused(storage: Storage) -> None:
    with pytest.raises(InvalidJobIdError):
        Journal(storage, "../orders")


# ---- the write buffer


def test_only_events_that_decide_nothing_wait_for_the_flush_interval(storage: Storage) -> None:
    now = [10.0]
    journal = claimed(storage, clock=lambda: now[0], flush_interval=1.0)
    journal.write(late(1))
    now[0] = 10.9
    journal.write(late(2))
    now[0] = 10.99
    journal.tick()
    assert replayed(storage).late_files == []
    assert journal.state.late_files == [late(1), late(2)]
    now[0] = 11.0
    journal.tick()
    assert replayed(storage).late_files == [late(1), late(2)]
    assert entries(storage) == 2
    now[0] = 12.0
    journal.tick()
    journal.write(late(3))
    journal.write(ev.StatusChanged(JobStatus.FINISHED, 12.0))
    assert replayed(storage).late_files == [late(1), late(2), late(3)]
    assert replayed(storage).status == "FINISHED"
    assert entries(storage) == 3


def test_a_full_buffer_is_flushed(storage: Storage) -> None:
    journal = claimed(storage, buffer_bytes=200)
    for number in range(10):
        journal.write(late(number))
    assert 0 < len(replayed(storage).late_files) < 10
    journal.flush()
    assert len(replayed(storage).late_files) == 10


def test_only_events_that_decide_nothing_may_wait() -> None:
    """The next driver resumes a drain that was accepted. The other answers matter only to the sender."""
    answers = [
        ev.RequestAnswered("r", "stop", outcome_of("accepted"), 1.0),
        ev.RequestAnswered("r", "drain", outcome_of("refused: …"), 1.0),
    ]
    waiting = [late(1), ev.CheckpointAborted(1, "CHECKPOINT_EXPIRED", 1.0), *answers]
    assert not any(event.decides for event in waiting)
    deciding = [event for event in one_event_of_each() if type(event) not in {type(buffered) for buffered in waiting}]
    assert all(event.decides for event in [*deciding, ev.RequestAnswered("r", "drain", outcome_of("accepted"), 1.0)])


def test_r10_a_crash_loses_only_events_that_decide_nothing(storage: Storage) -> None:
    """The end of a checkpoint may be lost. Its number is known, and also that no driver will complete it."""
    journal = claimed(storage)
    journal.write(ev.CheckpointTriggered(1, 1.0))
    for event in (
        ev.CheckpointAborted(1, "IO_EXCEPTION", 2.0),
        late(1),
        ev.RequestAnswered("r", "stop", outcome_of("accepted"), 2.0),
    ):
        journal.write(event)
    successor = claimed(storage, "t2")
    state = successor.state
    assert (state.last_triggered, state.pending, state.aborted, state.late_files, state.answered) == (
        1,
        0,
        {},
        [],
        set(),
    )
    assert state.checkpoint_views()[0].reason == "the driver was lost"
    with pytest.raises(FencedError):
        journal.flush()
    assert replayed(storage) == state


def test_an_event_that_is_no_json_is_refused_and_not_journaled(storage: Storage) -> None:
    journal = claimed(storage)
    with pytest.raises(ValueError, match="JSON"):
        journal.write(ev.StatusChanged(JobStatus.RUNNING, float("nan")))
    journal.write(ev.StatusChanged(JobStatus.RUNNING, 1.0))
    assert replayed(storage).status == "RUNNING"


# ---- claims and fencing


def test_nothing_is_written_before_a_claim(storage: Storage) -> None:
    journal = Journal(storage, "orders")
    acts: list[Callable[[], None]] = [lambda: journal.write(finished(1)), journal.flush]
    for act in (*acts, journal.check_fenced):
        with pytest.raises(TerminalError, match="nothing can be written to it before claim"):
            act()


def test_r3_the_previous_driver_is_fenced_and_names_its_successor(storage: Storage) -> None:
    zombie = claimed(storage, "t1")
    assert claimed(storage, "t2").epoch == 2
    with pytest.raises(FencedError, match=r"epoch 2 is owned by attempt t2 \(.*host driver-1.*has epoch 1"):
        zombie.check_fenced()
    with pytest.raises(FencedError):
        zombie.write(finished(1))
    with pytest.raises(FencedError):
        zombie.tick()
    assert replayed(storage).finished == set()


def test_r3_a_zombie_is_fenced_by_its_next_append(storage: Storage) -> None:
    zombie = claimed(storage, "t1")
    zombie.write(late(7))
    claimed(storage, "t2")
    with pytest.raises(FencedError) as raised:
        zombie.flush()
    assert (raised.value.data["epoch"], raised.value.data["attempt"]) == (2, "t2")
    assert replayed(storage).late_files == []


def test_r3_a_zombie_stays_fenced_after_a_compaction(storage: Storage) -> None:
    zombie = claimed(storage, "t1")
    successor = claimed(storage, "t2")
    for number in range(30):
        successor.write(finished(number))
    successor.compact(500.0)
    successor.write(finished(99))
    with pytest.raises(FencedError):
        zombie.write(ev.StatusChanged(JobStatus.FAILED, 1.0))
    with pytest.raises(FencedError):
        zombie.compact(501.0)
    assert replayed(storage).status is None
    assert len(replayed(storage).finished) == 31


def test_r3_a_claim_paused_during_a_compaction_takes_the_tail(storage: Storage) -> None:
    owner = claimed(storage, "t1")

    class Paused(WrappedStorage):
        """Storage through which the owner writes and compacts just before our claim is created."""

        done = False

        def create(self, path: str, data: bytes) -> None:
            if not self.done:
                self.done = True
                for number in range(20):
                    owner.write(finished(number))
                owner.compact(5.0)
            super().create(path, data)

    late = Journal(Paused(storage), "orders")
    assert late.claim("t2", Worker(), 6.0) == 2
    assert len(late.state.finished) == 20
    with pytest.raises(FencedError):
        owner.write(finished(50))
    late.write(finished(51))
    state = replayed(storage)
    assert (state.epoch, state.attempt, len(state.finished)) == (2, "t2", 21)


def test_r3_a_claim_that_is_overtaken_before_it_returns_is_fenced(storage: Storage) -> None:
    class Overtaken(WrappedStorage):
        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            claimed(storage, "faster")

    with pytest.raises(FencedError) as raised:
        Journal(Overtaken(storage), "orders").claim("slow", Worker(), 1.0)
    assert raised.value.data["attempt"] == "faster"


def test_r3_racing_claims_take_distinct_epochs(storage: Storage) -> None:
    start = threading.Barrier(4)
    epochs: list[int] = []
    alive: list[Journal] = []

    def race(number: int) -> None:
        start.wait()
        for _ in range(5):
            journal = Journal(storage, "orders")
            try:
                epochs.append(journal.claim(f"t{number}", Worker(), 1.0))
                journal.write(finished(number))
                alive.append(journal)
            except FencedError:
                continue

    threads = [threading.Thread(target=race, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(epochs) == len(set(epochs))
    assert replayed(storage).epoch == 20  # each of the 20 claims took an epoch of its own

    def still_owns(journal: Journal) -> bool:
        try:
            journal.check_fenced()
        except FencedError:
            return False
        return True

    assert [journal.epoch for journal in alive if still_owns(journal)] == [20]


# ---- lost replies and failures


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_r17_a_lost_reply_does_not_fence_the_driver(storage: Storage, lost: int, repeats: bool) -> None:
    journal = Journal(LossyStorage(storage, frozenset({lost}), repeats=repeats), "orders")
    assert journal.claim("t1", Worker(), 1.0) == 1
    journal.write(finished(1))
    journal.write(finished(2))
    assert replayed(storage).finished == {"v/1", "v/2"}
    assert entries(storage) == 3


class Broken(WrappedStorage):
    broken = False

    def create(self, path: str, data: bytes) -> None:
        if self.broken:
            raise StorageTransientError(verb="create", uri=self.full_uri(path), reason="disk full")
        super().create(path, data)


def test_a_journal_refuses_writes_after_a_failed_write(storage: Storage) -> None:
    broken = Broken(storage)
    journal = claimed(broken)
    broken.broken = True
    with pytest.raises(JournalUnwritableError, match="disk full") as raised:
        journal.write(finished(1))
    assert raised.value.retryable
    broken.broken = False
    acts: list[Callable[[], None]] = [lambda: journal.write(finished(2)), journal.flush]
    for act in (*acts, journal.check_fenced):
        with pytest.raises(JournalUnwritableError):
            act()
    assert replayed(storage).finished == set()
    assert journal.claim("t2", Worker(), 2.0) == 2
    journal.write(finished(3))
    assert replayed(storage).finished == {"v/3"}


def test_a_journal_refuses_writes_after_an_interrupted_append(storage: Storage) -> None:
    journal = Journal(CrashingStorage(storage, 2, "after"), "orders")
    journal.claim("t1", Worker(), 1.0)
    with pytest.raises(SimulatedCrash):
        journal.write(finished(1))
    with pytest.raises(JournalUnwritableError, match="interrupted"):
        journal.write(finished(2))


# ---- damage


@pytest.mark.parametrize("last", [False, True])
def test_r17_a_damaged_journal_is_read_up_to_the_damage_and_not_claimed(storage: Storage, last: bool) -> None:
    journal = claimed(storage)
    for number in range(3):
        journal.write(finished(number))
    path = "orders/journal/00000003.json" if last else "orders/journal/00000002.json"
    storage.replace(path, storage.read(path)[:20])
    state = replayed(storage)
    assert state.finished == ({"v/0", "v/1"} if last else {"v/0"})
    assert len(state.damage) == 1
    assert path in state.damage[0]
    with pytest.raises(CorruptJournalError, match="damaged"):
        Journal(storage, "orders").claim("t2", Worker(), 1.0)


def test_an_unknown_event_stops_the_replay(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_ckpt.__version__", "7.0.0")
    claimed(storage)
    monkeypatch.undo()
    path = "orders/journal/00000000.json"
    data = without_checksum(storage.read(path)).replace(b"EpochClaimed", b"EpochDreamed")
    storage.replace(path, data)
    with pytest.raises(UnknownEventError, match=r"EpochDreamed.*7\.0\.0"):
        replayed(storage)
    assert "7.0.0" in list_jobs(storage)[0].damage[0]


# ---- compaction and following


def test_a_compacted_journal_is_small_and_replays_to_the_same_state(storage: Storage) -> None:
    journal = claimed(storage)
    for round_ in range(5):
        for event in random_events(round_, 40):
            journal.write(event)
        journal.compact(1000.0 + round_)
        assert replayed(storage) == journal.state
        assert entries(storage) == 3  # the claim, the snapshot, the head
    second = claimed(storage, "t2")
    second.compact(2000.0)
    assert entries(storage) == 4
    assert replayed(storage).epoch == 2


def test_reading_a_journal_does_not_slow_down_with_take_overs(storage: Storage) -> None:
    """Claims are kept forever (R3), and the snapshot after them includes them."""

    class Reads(WrappedStorage):
        count = 0

        def read(self, path: str) -> bytes:
            self.count += 1
            return super().read(path)

    journal = Journal(storage, "job")
    for number in range(30):
        journal.claim(f"t-{number}", Worker(), 0.0)
        journal.write(ev.CheckpointTriggered(number, 0.0))
    journal.compact(0.0)
    reads = Reads(storage)
    reader = Journal(reads, "job")
    assert reader.replay() == journal.state
    assert reads.count == 2, "the head record and the snapshot"
    assert reader.claim("t-30", Worker(), 0.0) == 31
    reader.compact(0.0)
    kept = [name for name in storage.list("job/journal") if name[0].isdigit()]
    assert len(kept) == 31 + 1, "each claim, and the snapshot"


def test_r3_a_missing_claim_is_damage(storage: Storage) -> None:
    journal = Journal(storage, "job")
    for number in range(3):
        journal.claim(f"t-{number}", Worker(), 0.0)
    journal.compact(0.0)
    storage.delete("job/journal/00000001.json")
    assert "it is missing" in Journal(storage, "job").replay().damage[0]


def test_an_observer_follows_the_journal_without_a_replay(storage: Storage) -> None:
    journal = claimed(storage)
    observer = Journal(storage, "orders")
    assert observer.refresh().epoch == 1
    journal.write(finished(1))
    assert observer.refresh().finished == {"v/1"}
    for number in range(2, 30):
        journal.write(finished(number))
    journal.compact(1.0)
    journal.write(finished(30))
    assert observer.refresh() == journal.state
    assert observer.refresh() == journal.state


# ---- crashes


def use_the_journal(storage: Storage) -> None:
    journal = Journal(storage, "orders")
    journal.claim("t1", WORKER, 1.0)
    for number in range(3):
        journal.write(finished(number))
    journal.compact(2.0)
    journal.write(late(1))
    journal.write(finished(3))
    journal.write(late(2))
    journal.compact(4.0)
    journal.write(finished(4))
    journal.write(finished(5))


def test_a_crash_at_any_verb_leaves_a_prefix_that_a_driver_continues(tmp_path: Path) -> None:
    counting = CrashingStorage(open_storage(tmp_path / "whole"))
    use_the_journal(counting)
    assert counting.verbs.count > 15
    prefixes = [{f"v/{number}" for number in range(count)} for count in range(7)]
    before = -1
    for at, when in crash_points(counting.verbs.count):
        storage = open_storage(tmp_path / f"{at}-{when}")
        with pytest.raises(SimulatedCrash):
            use_the_journal(CrashingStorage(storage, at, when))
        state = replayed(storage)
        assert state.damage == [], (at, when)
        assert state.finished in prefixes, (at, when)
        assert len(state.finished) >= before, (at, when)
        assert (len(state.late_files) > 0) == ("v/3" in state.finished), (at, when)
        before = len(state.finished)
        successor = Journal(storage, "orders")
        assert successor.claim("t2", Worker(), 9.0) == state.epoch + 1
        assert successor.state.finished == state.finished
        successor.write(finished(77))
        successor.compact(10.0)
        assert replayed(storage).finished == {*state.finished, "v/77"}, (at, when)
        assert entries(storage) == 2 + successor.state.epoch, (at, when)


# ---- jobs, golden files


def test_the_jobs_of_a_root_are_listed(storage: Storage) -> None:
    for name in ("b", "a", "a.b"):
        Journal(storage, name).claim("t", Worker(), 1.0)
    storage.create("not a job/journal/00000000.json", b"")
    storage.create("ckpt-root.json", b"{}")
    storage.create("other/file", b"")
    storage.replace("b/journal/00000000.json", b"")
    states = list_jobs(storage)
    assert [(state.job_id, state.epoch, len(state.damage)) for state in states] == [
        ("a", 1, 0),
        ("a.b", 1, 0),
        ("b", 0, 1),
    ]


def test_the_golden_journal_is_replayed() -> None:
    state = Journal(open_storage(GOLDEN), "orders").replay()
    expected = JobState("orders")
    for event in [
        *one_event_of_each(),
        ev.EpochClaimed(2, "manual~t2", WORKER, 200.0),
        ev.StatusChanged(JobStatus.RUNNING, 201.0),
    ]:
        event.apply(expected)
    assert state == expected


def test_a_new_journal_equals_the_golden_journal(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    nonces = iter(f"00000000000000{number:02x}" for number in range(256))
    memory = open_storage("memory://golden-journal")
    monkeypatch.setattr("secrets.token_hex", lambda size: next(nonces))
    monkeypatch.setattr("airflow_provider_ckpt.__version__", "0.1.0")
    monkeypatch.setattr(JournalEvent, "decides", False)  # so that an entry holds several
    write_golden(memory)
    golden = open_storage(GOLDEN)
    assert {name: without_checksum(memory.read(name)) for name, _ in memory.files("")} == {
        name: golden.read(name) for name, _ in golden.files("")
    }
    memory.delete_tree("")


def write_golden(storage: Storage) -> None:
    events = one_event_of_each()
    first = Journal(storage, "orders")
    first.claim("manual~t1", WORKER, 100.0)
    for event in events[1:12]:
        first.write(event)
    first.compact(150.0)
    for event in events[12:]:
        first.write(event)
    first.flush()
    second = Journal(storage, "orders")
    second.claim("manual~t2", WORKER, 200.0)
    second.write(ev.StatusChanged(JobStatus.RUNNING, 201.0))
    second.flush()
