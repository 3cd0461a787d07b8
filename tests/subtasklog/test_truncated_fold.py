"""Truncated logs, which fold to the same state as the whole log at every position that a reader may ask for (R4,
R7)."""

# ruff: noqa: B023 - functions that run while their loop is paused

from __future__ import annotations

import random

import pytest

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader
from airflow_provider_ckpt.subtasklog.log_state import Numbered, fold, live
from airflow_provider_ckpt.subtasklog.log_truncation import LogTruncation
from airflow_provider_ckpt.subtasklog.needed import log_head
from airflow_provider_ckpt.subtasklog.records import (
    Barrier,
    Batch,
    EndOfData,
    EndOfPartition,
    Open,
    PartitionFile,
    Record,
)
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash
from tests.support.paused_storage import PausedStorage
from tests.support.seeded import first_fast

# in 23, a consumer has read a batch in part when the log is truncated
SEEDS = [23, *range(23), *range(24, 100)]


class World:
    def __init__(self, seed: int, storage: Storage | None = None) -> None:
        self.rng = random.Random(seed)
        self.storage = storage or open_storage(f"memory:///fold-fold-{seed}")
        self.all: list[Numbered] = []
        self.barriers: list[int] = []
        self.epoch, self.batch, self.ck = 0, 0, 0
        self.head = 0
        self.consumers = [0] * self.rng.choice([0, 1, 2])
        self.released: int | None = self.rng.choice([None, 0])
        self.history: list[tuple[int, tuple[int, ...], int | None]] = []  # of each completed checkpoint
        self.reopen(None)

    def reopen(self, continues_at: int | None) -> None:
        self.epoch += 1
        self.log = SubtaskLog(self.storage, "log")
        self.log.load()
        at = self.log.position
        self.log.open(AttemptId(self.epoch, 0, "a"), continues_at)
        self.all.append((at, self.log.records(at)[0][1]))
        self.note()

    def note(self) -> None:
        last = self.log.state.last_batch
        whole = fold(self.all)
        assert self.log.state.last_batch == whole.last_batch
        assert self.log.state.end_of_data == whole.end_of_data
        self.batch = 0 if last is None else last.batch_id + 1

    def step(self) -> None:
        rng = self.rng
        ended = self.log.state.end_of_data is not None
        action = rng.choices(
            ["batch", "barrier", "idle", "end", "open", "restore", "truncate", "read", "release"],
            [6, 5, 2, 0.4, 1, 1, 3, 4, 2],
        )[0]
        if action == "batch" and not ended:
            files = (PartitionFile(f"{self.batch}/part", 1),) if rng.random() < 0.5 else ()
            record = Batch(self.batch, {"s": str(rng.random())}, files=files)
            at = self.log.append_batch(record)
            self.batch += 1
            self.all.append((at, record))
        elif action == "barrier":
            self.barrier()
        elif action == "idle":
            for _ in range(rng.randrange(1, 6)):
                self.barrier()
        elif action == "end" and not ended:
            at = self.log.position
            self.log.end_of_data("finish")
            self.all.append((at, EndOfData("finish")))
        elif action == "open":
            self.reopen(None)
        elif action == "restore" and self.history:
            position, consumers, _ = self.history[-1]
            self.consumers = list(consumers)
            self.reopen(position + 1)
        elif action == "read":
            self.consumers = [rng.randrange(c, self.log.position + 1) for c in self.consumers]
        elif action == "release" and self.released is not None and self.history:
            self.released = max(self.released, rng.choice(self.history[-4:])[0])
        elif action == "truncate" and self.history:
            self.truncate()

    def barrier(self) -> None:
        self.ck += 1
        at = self.log.position
        snapshot = self.log.barrier(self.epoch, self.ck)
        self.all.append((at, Barrier(self.epoch, self.ck, snapshot)))
        # consumers have read up to some position <= at
        self.consumers = [min(c, at) for c in self.consumers]
        self.history.append((at, tuple(self.consumers), self.released))

    def kept(self) -> list[tuple[int, tuple[int, ...], int | None]]:
        return self.history[-2:]

    def next_head(self) -> int:
        oldest = self.kept()[0]
        records = self.log.records()
        return log_head(records, retained=[oldest[0]], unreleased_from=self.released, consumers=oldest[1])

    def truncate(self, storage: Storage | None = None) -> None:
        head = self.next_head()
        kept = LogTruncation(storage or self.storage, "log", lambda: None).truncate(head, self.released)
        self.log.forget(head, kept)
        self.head = max(self.head, head)

    def check(self) -> None:
        for reader in (SubtaskLog(self.storage, "log"),):
            reader.load()
            left = reader.records()
            self.same(reader._records)
        self.same(self.log._records)
        tail = TailingLogReader(self.storage, "log")
        assert tail.records() == left

    def same(self, kept: list[Numbered]) -> None:
        end = self.all[-1][0] + 1
        head = self.head
        whole = self.all
        assert [x for x in kept if x[0] >= head] == [x for x in whole if x[0] >= head]
        opens = [x for x in whole if isinstance(x[1], Open)]
        assert [x for x in kept if isinstance(x[1], Open)] == opens
        # positions that a reader may ask for: the end, and a restore to each retained barrier (an Open after all
        # entries)
        asks: list[int | None] = [None, *(p + 1 for p, _, _ in self.kept())]
        for ask in asks:
            extra = [] if ask is None else [(end, Open(AttemptId(999, 0, "z"), 999, "z", ask))]
            a, b = fold([*whole, *extra]), fold([*kept, *extra])
            assert (a.last_batch, a.last_batch_position, a.end_of_data, a.closed, a.opened) == (
                b.last_batch,
                b.last_batch_position,
                b.end_of_data,
                b.closed,
                b.opened,
            ), ask
            assert {k: s for k, s in a.barriers.items() if s.position >= head} == {
                k: s for k, s in b.barriers.items() if s.position >= head
            }
            assert a.snapshot_at(end) == b.snapshot_at(end)
        # entries that consumers still read: batches and ends, from each consumer's position on, and the edge
        lv = live(whole)
        for position in (*self.kept()[0][1],) if self.history else ():
            assert read(lv, position) == read(live(kept), position)
            assert edge(lv, position) == edge(live(kept), position)
        if self.released is not None:
            want = [x for x in lv if x[0] >= self.released and isinstance(x[1], Batch)]
            assert want == [x for x in live(kept) if x[0] >= self.released and isinstance(x[1], Batch)]


def gives_rows(record: Record) -> bool:
    return isinstance(record, Batch) and bool(record.files)


def read(records: list[Numbered], position: int) -> list[Numbered]:
    """Return the entries that a consumer at that position has not read."""
    ends = (EndOfData, EndOfPartition)
    return [(n, record) for n, record in records if n >= position and (gives_rows(record) or isinstance(record, ends))]


def edge(records: list[Numbered], position: int) -> list[Numbered]:
    """Return the entry that the consumer may have read in part."""
    return [(n, record) for n, record in records if n == position - 1 and gives_rows(record)]


def lived(seed: int, name: str) -> World:
    world = World(seed, open_storage(f"memory:///fold-{name}"))
    for _ in range(30):
        world.step()
    assert world.history, "nothing was checkpointed: take another seed"
    return world


@pytest.mark.parametrize("seed", first_fast(SEEDS, 10))
def test_r7_a_truncated_log_folds_like_the_whole_log(seed: int) -> None:
    world = World(seed)
    for _ in range(60):
        world.step()
        world.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_r7_two_interleaved_truncations_keep_the_fold(seed: int) -> None:
    """A has checked its fence and sleeps. B restores, resumes and truncates. Then A wakes up."""
    at = 0
    while True:
        at += 1
        world = lived(seed, f"two-{seed}-{at}")
        hit = []

        def other() -> None:
            hit.append(1)
            world.reopen(world.rng.choice([None, world.history[-1][0] + 1]))
            for _ in range(world.rng.randrange(0, 25)):
                world.step()
            world.truncate()

        paused = PausedStorage(world.storage, at, other)
        head, released = world.next_head(), world.released
        LogTruncation(paused, "log", lambda: None).truncate(head, released)
        if not hit:
            return
        world.head = max(world.head, head)
        world.check()
        for _ in range(10):
            world.step()
            world.check()


@pytest.mark.parametrize("seed", first_fast(range(12), 3))
def test_r7_a_truncation_that_dies_anywhere_keeps_the_fold(seed: int) -> None:
    at = 0
    while True:
        at += 1
        world = lived(seed, f"die-{seed}-{at}")
        try:
            world.truncate(CrashingStorage(world.storage, at, world.rng.choice(["before", "after"])))
        except SimulatedCrash:
            pass
        else:
            return
        names = world.storage.list("log")
        world.head = max((int(n[5:-5]) for n in names if n.startswith("head-")), default=0)
        if world.rng.random() < 0.5:
            world.reopen(None)
        world.check()
        for _ in range(15):
            world.step()
            world.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_r3_a_reader_during_a_truncation_sees_the_same_fold(seed: int) -> None:
    at = 0
    while True:
        at += 1
        world = lived(seed, f"read-{seed}-{at}")
        hit = []

        def other() -> None:
            hit.append(1)
            world.truncate()
            for _ in range(world.rng.randrange(0, 12)):
                world.step()
            if world.history:
                world.truncate()

        reader = SubtaskLog(PausedStorage(world.storage, at, other), "log")
        reader.load()
        if not hit:
            return
        # the reader may lag; its entries are a prefix that folds to the same state
        end = reader.position
        seen = [x for x in world.all if x[0] < end]
        a, b = fold(seen), fold(reader._records)
        assert (a.last_batch, a.end_of_data, a.opened) == (b.last_batch, b.end_of_data, b.opened)
