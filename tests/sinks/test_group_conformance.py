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
        if broken == "one ahead, all skipped" and any(one.last_released() >= checkpoint for one in tables):
            return [{"rows": self.shop.entries[one.uid].rows} for one in tables]
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
            if self.shop.broken == "no lock" and any(one["id"] for member in participants for one in member.handles):
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
        waiting = [one for one in member.handles if one["id"] not in entry.released or broken in FORGETFUL]
        for handle in waiting:
            if handle["id"] not in self.shop.staged and broken != "what is gone is nothing":
                raise StagedFilesMissingError(
                    job="orders", checkpoint=checkpoint, sink="s", count=1, path=handle["id"], uri="shop"
                )
        entry.shown = sorted([*entry.shown, *(row for one in waiting for row in self.shop.staged.get(one["id"], []))])
        entry.released |= {one["id"] for one in waiting}
        if waiting:
            entry.last, entry.rows = checkpoint, sum(one["rows"] for one in waiting)
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
    "one after the other": {"none_is_released", "a_crash_at_any_step_releases_all_or_none"},
    "counts in another order": {"each_sink_is_told", "one_without_handles"},
    "what is gone is nothing": {"none_is_released"},
    "handles forgotten": {"made_up_for_by_a_higher_checkpoint", "reply_was_lost"},
    "any checkpoint": {"releasing_again", "a_lower_checkpoint"},
    "nothing remembered": {"a_zombie", "a_crash_at_any_step"},
    "a repeat is nothing": {"releasing_again", "reply_was_lost"},
    "no lock": {"several_releasers_at_once"},
    "one empty, all skipped": {"one_without_handles"},
    "one ahead, all skipped": {"was_released_by_itself"},
    "alone, others are known": {"by_one_that_is_released_by_itself"},
    "known by their places": {"their_order"},
    "with Spark": {"all_of_a_group"},
    "nothing at all": {"all_of_a_group"},
}
"""Defect → parts of the names of tests that must fail for it. Other tests may fail, too."""


@pytest.mark.parametrize("call", list(calls()), ids=str)
def test_a_sink_that_keeps_its_promises_passes(call: Call) -> None:
    run(call)


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN)
def test_one_that_does_not_is_noticed(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
    missing = {part for part in BROKEN[broken] if not any(part in name for name in failed)}
    assert missing == set()


def test_each_test_of_the_suite_notices_something() -> None:
    noticed = set().union(*BROKEN.values())
    assert [name for name, _ in calls() if not any(part in name for part in noticed)] == []


def test_a_sink_that_is_released_by_itself_skips_them_and_it_is_said_why(tmp_path: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="released by itself, and shares no transaction"):
        group_of(FileTarget(tmp_path))
