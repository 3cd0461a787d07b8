"""Test of the group suite: it accepts a correct sink and notices each broken one."""

from __future__ import annotations

import copy
import inspect
import itertools
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from airflow_provider_ckpt.sinks.errors import StagedFilesMissingError
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, ReleaseParticipant, StageRequest
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.testing.crash import When
from airflow_provider_ckpt.testing.group_conformance import GroupConformance, SinkGroup
from airflow_provider_ckpt.testing.released_rows import Damage, Row, expected
from airflow_provider_ckpt.testing.sink_conformance import group_of
from tests.sinks.dying_process import Process
from tests.sinks.file_target import FileTarget

UIDS = ("lines", "orders")
FORGETFUL = ("handles forgotten", "nothing remembered")


@dataclass
class Entry:
    """State of one sink in the shop."""

    last: int = 0
    rows: int = 0
    released: set[str] = field(default_factory=set)
    shown: list[Row] = field(default_factory=list)


@dataclass
class Shop:
    """Database. A transaction works on a copy, and its commit is one step."""

    entries: dict[str, Entry] = field(default_factory=lambda: {uid: Entry() for uid in UIDS})
    alone: dict[str, Entry] = field(default_factory=lambda: {uid: Entry() for uid in UIDS})
    staged: dict[str, list[Row]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    broken: str = ""
    meeting: threading.Barrier = field(default_factory=lambda: threading.Barrier(3))


class Table(BoundSink):
    def __init__(self, uid: str, shop: Shop, process: Process) -> None:
        self.uid, self.shop, self.process = uid, shop, process

    def stage(self, frame: Any, request: StageRequest) -> Handle:
        self.shop.staged[request.id] = frame
        return {"id": request.id, "rows": len(frame)}

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        if self.shop.broken != "alone, others are known":
            return self.release_together([ReleaseParticipant(self, handles)], checkpoint)[0]
        entry = self.shop.entries[self.uid]
        counts = self._fill(self.shop.alone[self.uid], ReleaseParticipant(self, handles), checkpoint)
        entry.shown = sorted([*entry.shown, *self.shop.alone[self.uid].shown])
        return counts

    def last_released(self) -> int:
        return self.shop.entries[self.uid].last

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        return []

    def release_together(self, participants: Sequence[ReleaseParticipant], checkpoint: int) -> list[dict[str, int]]:
        broken, tables = self.shop.broken, [member.sink for member in participants if isinstance(member.sink, Table)]
        if (
            broken == "one empty, all skipped"
            and len(participants) > 1
            and not all(member.handles for member in participants)
        ):
            return [{"rows": 0} for _ in participants]
        if broken == "one ahead, all skipped" and any(table.last_released() >= checkpoint for table in tables):
            return [{"rows": self.shop.entries[table.uid].rows} for table in tables]
        if broken == "with Spark" and SparkContext._active_spark_context is None:
            raise RuntimeError("no session")
        if broken == "one after the other":
            return [self._release([member], checkpoint)[0] for member in participants]
        counts = self._release(participants, checkpoint)
        return counts[::-1] if broken == "counts in another order" else counts

    def _release(self, participants: Sequence[ReleaseParticipant], checkpoint: int) -> list[dict[str, int]]:
        lock = self.shop.lock if self.shop.broken != "no lock" else threading.Lock()
        with lock:
            entries, seen = copy.deepcopy(self.shop.entries), copy.deepcopy(self.shop.entries)
            if self.shop.broken == "no lock" and any(
                handle["id"] for member in participants for handle in member.handles
            ):
                with suppress(threading.BrokenBarrierError):  # all threads read before one writes
                    self.shop.meeting.wait(0.2)
            self.process.step(lambda: None)
            uids: Sequence[str] = [member.sink.uid for member in participants]  # type: ignore[attr-defined]
            if self.shop.broken == "known by their places" and len(participants) > 1:
                uids = UIDS
            counts = [
                self._fill(entries[uid], member, checkpoint) for uid, member in zip(uids, participants, strict=True)
            ]
            self.process.step(lambda: self._commit(entries, seen))
        if self.process.loses:
            raise StorageTransientError(verb="commit", uri="shop", reason="the reply was lost")
        return counts

    def _commit(self, entries: dict[str, Entry], seen: dict[str, Entry]) -> None:
        if self.shop.broken == "no lock":  # like INSERTs: concurrent commits keep each other's rows
            for uid, entry in entries.items():
                new = [row for row in entry.shown if row not in seen[uid].shown]
                entry.shown = sorted([*self.shop.entries[uid].shown, *new])
        self.shop.entries = entries

    def _fill(self, entry: Entry, member: ReleaseParticipant, checkpoint: int) -> dict[str, int]:
        broken = self.shop.broken
        if checkpoint <= entry.last and broken not in ("any checkpoint", "nothing remembered"):
            return {"rows": entry.rows if checkpoint == entry.last and broken != "a repeat is nothing" else 0}
        waiting = [handle for handle in member.handles if handle["id"] not in entry.released or broken in FORGETFUL]
        for handle in waiting:
            if handle["id"] not in self.shop.staged and broken != "what is gone is nothing":
                raise StagedFilesMissingError(
                    job="orders", checkpoint=checkpoint, sink="s", count=1, path=handle["id"], uri="shop"
                )
        entry.shown = sorted(
            [*entry.shown, *(row for handle in waiting for row in self.shop.staged.get(handle["id"], []))]
        )
        entry.released |= {handle["id"] for handle in waiting}
        if waiting:
            entry.last, entry.rows = checkpoint, sum(handle["rows"] for handle in waiting)
        return {"rows": entry.rows if waiting else 0}


@dataclass
class InShop(SinkGroup):
    shop: Shop

    def bind(self, process: Process | None = None) -> list[BoundSink]:
        process = process or Process()
        return [Table(uid, self.shop, process) for uid in UIDS]

    def dying(self, at: int, when: When) -> list[BoundSink]:
        return self.bind(Process(at, when))

    def losing(self) -> list[BoundSink]:
        return self.bind(Process(loses=True))

    def damage(self, handle: Handle, how: Damage) -> None:
        del self.shop.staged[handle["id"]]

    def rows(self, spark: Any) -> list[list[Row]]:
        return [self.shop.entries[uid].shown for uid in UIDS]


class Suite(GroupConformance):
    def frame(self, spark: Any, *ids: int) -> Any:
        return expected(ids)


Call = tuple[str, Mapping[str, Any]]


def calls() -> Iterator[Call]:
    """Yield each test of the suite with each of its parameters."""
    for name, test in inspect.getmembers(Suite, inspect.isfunction):
        marks = [mark.args for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
        if name.startswith("test_"):
            for values in itertools.product(*(values for _, values in marks)):
                yield name, dict(zip((names for names, _ in marks), values, strict=True))


def run(call: Call, broken: str = "") -> None:
    name, given = call
    getattr(Suite(), name)(spark=None, group=InShop(Shop(broken=broken)), **given)


BROKEN = {
    "one after the other": {
        "test_group_r9_a_damaged_batch_of_one_sink_prevents_the_whole_release",
        "test_group_r9_a_crashed_release_is_atomic_and_the_next_completes_it",
    },
    "counts in another order": {
        "test_group_r9_a_release_counts_the_visible_rows_of_each_sink",
        "test_group_a_sink_without_handles_does_not_delay_the_other",
    },
    "what is gone is nothing": {"test_group_r9_a_damaged_batch_of_one_sink_prevents_the_whole_release"},
    "handles forgotten": {
        "test_group_r9_a_higher_checkpoint_completes_a_crashed_release",
        "test_group_r9_a_release_with_a_lost_reply_is_not_repeated",
    },
    "any checkpoint": {
        "test_group_r9_releasing_again_changes_nothing",
        "test_group_r9_a_lower_checkpoint_is_not_released_after_a_higher_one",
    },
    "nothing remembered": {
        "test_group_r9_a_late_release_of_a_zombie_changes_nothing",
        "test_group_r9_a_crashed_release_is_atomic_and_the_next_completes_it",
        "test_group_r9_a_higher_checkpoint_completes_a_crashed_release",
    },
    "a repeat is nothing": {
        "test_group_r9_releasing_again_changes_nothing",
        "test_group_r9_a_release_with_a_lost_reply_is_not_repeated",
    },
    "no lock": {"test_group_r9_concurrent_releases_release_once"},
    "one empty, all skipped": {"test_group_a_sink_without_handles_does_not_delay_the_other"},
    "one ahead, all skipped": {"test_group_a_release_skips_a_sink_that_was_released_alone"},
    "alone, others are known": {"test_group_a_sink_released_alone_skips_rows_that_the_group_released"},
    "known by their places": {"test_group_r9_the_order_of_the_sinks_may_change_in_the_next_run"},
    "with Spark": {"test_group_r9_one_call_releases_the_whole_group"},
    "nothing at all": {"test_group_r9_one_call_releases_the_whole_group"},
}
"""Defect → names of tests that must fail for it. Other tests may fail, too."""


@pytest.mark.parametrize("call", list(calls()), ids=str)
def test_a_correct_sink_passes_the_suite(call: Call) -> None:
    run(call)


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_sink_fails_the_expected_tests(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "with Spark":
        monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    if broken == "nothing at all":
        monkeypatch.setattr(
            Table, "release_together", lambda self, participants, checkpoint: [{"rows": 2} for _ in participants]
        )
    failed = set()
    for call in calls():
        try:
            run(call, broken)
        except (Exception, pytest.fail.Exception):
            failed.add(call[0])
    assert BROKEN[broken] <= failed


def test_each_test_of_the_suite_fails_for_some_broken_sink() -> None:
    noticed = set().union(*BROKEN.values())
    assert [name for name, _ in calls() if name not in noticed] == []


def test_a_sink_without_a_group_skips_the_group_tests_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="released by itself, and shares no transaction"):
        group_of(FileTarget(tmp_path))
