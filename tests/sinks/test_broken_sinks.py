"""Test of the sink suite: it accepts a correct sink and notices each broken one."""

from __future__ import annotations

import copy
import inspect
import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark import SparkContext

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.sinks.errors import GarbageLeftError, StagedFilesMissingError
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, StageRequest, attempt_of
from airflow_provider_ckpt.testing.crash import When
from airflow_provider_ckpt.testing.group_conformance import GroupConformance
from airflow_provider_ckpt.testing.released_rows import Damage, Row, expected
from airflow_provider_ckpt.testing.sink_conformance import SinkConformance
from airflow_provider_ckpt.testing.sink_target import SinkTarget
from tests.sinks.dying_process import Process

Who = tuple[str, str]
"""Job id and uid."""
Rows = dict[str, list[Row]]
"""Handle id → rows."""


@dataclass
class Entry:
    """State of one sink of a job in the shop."""

    last: int = 0
    rows: int = 0
    released: set[str] = field(default_factory=set)
    shown: list[tuple[str, Row]] = field(default_factory=list)


@dataclass
class Shop:
    """Database. A transaction works on a copy of an entry, and its commit is one step."""

    entries: dict[Who, Entry] = field(default_factory=dict)
    staged: dict[Who, Rows] = field(default_factory=dict)
    taken: dict[Who, Rows] = field(default_factory=dict)
    """Batches of a release in progress."""
    undeletable: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    meeting: threading.Barrier = field(default_factory=lambda: threading.Barrier(3))


class Table(BoundSink):
    """Sink that keeps every promise."""

    synced = True

    def __init__(self, who: Who, shop: Shop, process: Process) -> None:
        self.who, self.shop, self.process = who, shop, process
        self.mine, self.taken = shop.staged.setdefault(who, {}), shop.taken.setdefault(who, {})
        self.lock: Any = shop.lock

    @property
    def entry(self) -> Entry:
        return self.shop.entries.setdefault(self.who, Entry())

    def definition(self) -> Mapping[str, Any]:
        return {"type": "Table"}

    def stage(self, frame: Any, request: StageRequest) -> Handle:
        rows = list(frame)
        self.keep(request.id, rows)
        return {"id": request.id, "rows": len(rows)}

    def keep(self, name: str, rows: list[Row]) -> None:
        if rows:
            self.mine[name] = rows

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        with self.lock:
            entry = copy.deepcopy(self.entry)
            if self.has(entry, checkpoint):
                return {"rows": entry.rows if checkpoint == entry.last else 0}
            rows = {one["id"]: self.found(one["id"], checkpoint) for one in self.waiting(entry, handles)}
            if not rows:
                return {"rows": 0}
            self.process.step(lambda: self.take(rows))
            self.note(entry, rows, checkpoint)
            self.process.step(lambda: self.commit(entry, rows))
            return {"rows": self.counted(rows)}

    def has(self, entry: Entry, checkpoint: int) -> bool:
        return checkpoint <= entry.last

    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        return [one for one in handles if one["rows"] and one["id"] not in entry.released]

    def found(self, name: str, checkpoint: int) -> list[Row]:
        rows = self.mine.get(name, self.taken.get(name))
        if rows is None:
            job, uid = self.who
            raise StagedFilesMissingError(job=job, checkpoint=checkpoint, sink=uid, count=1, path=name, uri="shop")
        return rows

    def take(self, rows: Rows) -> None:
        self.taken.update({one: self.mine.pop(one) for one in rows if one in self.mine})

    def note(self, entry: Entry, rows: Rows, checkpoint: int) -> None:
        entry.last, entry.rows = checkpoint, self.counted(rows)
        entry.released |= rows.keys()
        entry.shown += [(one, row) for one, of in rows.items() for row in of]

    def counted(self, rows: Rows) -> int:
        return sum(map(len, rows.values()))

    def commit(self, entry: Entry, rows: Rows) -> None:
        self.shop.entries[self.who] = entry
        for one in rows:
            self.taken.pop(one, None)

    def last_released(self) -> int:
        return self.entry.last

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        left, deleted = [], []
        for one in sorted(one for one in self.mine if self.is_dead(one, live_handles, live_attempts)):
            try:
                self.delete_staged([one])
                deleted.append(one)
            except TerminalError:
                left.append(one)
        if left:
            raise GarbageLeftError("{left} stay in the shop", left=left, deleted=deleted)
        return deleted

    def is_dead(self, name: str, live_handles: Collection[str], live_attempts: Collection[str]) -> bool:
        return name not in live_handles and attempt_of(name) not in live_attempts

    def staged(self) -> Mapping[str, Sequence[int]] | None:
        return {one: [10] for one in self.mine}

    def delete_staged(self, ids: Collection[str]) -> None:
        for one in ids:
            if one in self.shop.undeletable:
                raise TerminalError("{one} cannot be deleted", one=one)
            self.mine.pop(one, None)


# ---- sinks that break a promise


class StagesInSight(Table):
    def keep(self, name: str, rows: list[Row]) -> None:
        super().keep(name, rows)
        self.entry.shown += [(name, row) for row in rows]


class StagesInItsProcess(Table):
    def __init__(self, who: Who, shop: Shop, process: Process) -> None:
        super().__init__(who, shop, process)
        self.here: Rows = {}

    def keep(self, name: str, rows: list[Row]) -> None:
        super().keep(name, rows)
        self.here[name] = rows

    def found(self, name: str, checkpoint: int) -> list[Row]:
        return self.here[name]


class StagesABatchInOnePlace(Table):
    def keep(self, name: str, rows: list[Row]) -> None:
        for one in [one for one in self.mine if one.rsplit("-", 1)[0] == name.rsplit("-", 1)[0]]:
            del self.mine[one]
        super().keep(name, rows)


class ReadsTheFrameTwice(Table):
    def stage(self, frame: Any, request: StageRequest) -> Handle:
        list(frame)
        return super().stage(frame, request)


class StagesAnEmptyBatch(Table):
    def keep(self, name: str, rows: list[Row]) -> None:
        self.mine[name] = rows


class DoesNotSync(Table):
    synced = False


class IsDefinedAnewEachTime(Table):
    def definition(self) -> Mapping[str, Any]:
        return {"type": "Table", "at": time.perf_counter_ns()}


class CountsNothingInItsHandle(Table):
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        return super().release([{**one, "rows": one["count"]} for one in handles], checkpoint)

    def stage(self, frame: Any, request: StageRequest) -> Handle:
        handle = super().stage(frame, request)
        return {**handle, "rows": 0, "count": handle["rows"]}


class GivesAHandleOfItsOwn(Table):
    def stage(self, frame: Any, request: StageRequest) -> Handle:
        rows, name = list(frame), f"{request.id}x"
        self.keep(name, rows)
        return {"id": name, "rows": len(rows)}


class DoesOneThingAtATime(Table):
    def stage(self, frame: Any, request: StageRequest) -> Handle:
        self.busy_with = request.id
        time.sleep(0.02)
        rows = list(frame)
        self.keep(self.busy_with, rows)
        return {"id": request.id, "rows": len(rows)}

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        time.sleep(0.01)
        for handle in handles:
            self.busy_with = handle["id"]
        return super().release(handles, checkpoint)


class RefusesToReleaseNothing(Table):
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        return {"rows": super().release(handles, checkpoint)["rows"] // len(handles) * len(handles)}


class RemembersTheLastInMemory(Table):
    def __init__(self, who: Who, shop: Shop, process: Process) -> None:
        super().__init__(who, shop, process)
        self.last = self.entry.last

    def last_released(self) -> int:
        return self.last

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        counts = super().release(handles, checkpoint)
        self.last = max(self.last, checkpoint)
        return counts


class CountsARepeatAsNothing(Table):
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        return {"rows": 0} if self.has(self.entry, checkpoint) else super().release(handles, checkpoint)


class CountsTheLastBatch(Table):
    def counted(self, rows: Rows) -> int:
        return len([*rows.values()][-1])


class CountsWhatIsNoCount(Table):
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        return {name: float(count) for name, count in super().release(handles, checkpoint).items()}  # type: ignore[misc]


class ReleasesAnyCheckpoint(Table):
    def has(self, entry: Entry, checkpoint: int) -> bool:
        return False


class ForgetsHandles(Table):
    """Knows released checkpoints, but no released handles."""

    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        return [one for one in handles if one["rows"]]

    def found(self, name: str, checkpoint: int) -> list[Row]:
        shown = [row for one, row in self.entry.shown if one == name]
        return shown or super().found(name, checkpoint)


class ReleasesWhateverComes(ForgetsHandles):
    def has(self, entry: Entry, checkpoint: int) -> bool:
        return False


class RemembersTheLastRelease(ForgetsHandles):
    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        return Table.waiting(self, entry, handles)

    def note(self, entry: Entry, rows: Rows, checkpoint: int) -> None:
        entry.released.clear()
        super().note(entry, rows, checkpoint)


class KnowsBatchesByNumber(Table):
    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        known = {number(one) for one in entry.released}
        return [one for one in super().waiting(entry, handles) if number(one["id"]) not in known]


class ReleasesOneOfEachNumber(Table):
    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        return [*{number(one["id"]): one for one in super().waiting(entry, handles)}.values()]


class ExpectsNumbersToAscend(Table):
    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        known = max(map(number, entry.released), default=-1)
        return [one for one in super().waiting(entry, handles) if number(one["id"]) > known]


class StopsAtAnEmptyBatch(Table):
    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        return super().waiting(entry, [*itertools.takewhile(lambda one: one["rows"], handles)])


class TakesWhatIsGoneForNothing(Table):
    def found(self, name: str, checkpoint: int) -> list[Row]:
        with suppress(StagedFilesMissingError):
            return super().found(name, checkpoint)
        return []


class ShowsBeforeItNotes(Table):
    def take(self, rows: Rows) -> None:
        super().take(rows)
        self.entry.shown += [(one, row) for one, of in rows.items() for row in of]

    def note(self, entry: Entry, rows: Rows, checkpoint: int) -> None:
        super().note(entry, rows, checkpoint)
        entry.shown = self.entry.shown


class LocksNothing(Table):
    def __init__(self, who: Who, shop: Shop, process: Process) -> None:
        super().__init__(who, shop, process)
        self.lock = nullcontext()

    def has(self, entry: Entry, checkpoint: int) -> bool:
        with suppress(threading.BrokenBarrierError):  # all threads read before one writes
            self.shop.meeting.wait(0.02)
        return super().has(entry, checkpoint)

    def commit(self, entry: Entry, rows: Rows) -> None:
        """Add the rows as INSERTs would: concurrent commits keep each other's rows."""
        entry.shown = [*self.entry.shown, *((one, row) for one, of in rows.items() for row in of)]
        super().commit(entry, rows)


class NeedsSpark(Table):
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        assert SparkContext._active_spark_context is not None
        return super().release(handles, checkpoint)


class OneEntryForAJob(Table):
    def __init__(self, who: Who, shop: Shop, process: Process) -> None:
        super().__init__(who, shop, process)
        self.who = (who[0], "")


class EmptiesWhatIsStaged(Table):
    def prepare(self) -> None:
        self.mine.clear()


class BeginsItsLedgerAnew(Table):
    def prepare(self) -> None:
        self.entry.last = 0
        self.entry.released.clear()


class CollectsWhatIsPublished(Table):
    def is_dead(self, name: str, live_handles: Collection[str], live_attempts: Collection[str]) -> bool:
        return attempt_of(name) not in live_attempts


class CollectsWhatMayBePublished(Table):
    def is_dead(self, name: str, live_handles: Collection[str], live_attempts: Collection[str]) -> bool:
        return name not in live_handles


class ListsAttempts(Table):
    def is_dead(self, name: str, live_handles: Collection[str], live_attempts: Collection[str]) -> bool:
        return super().is_dead(name, live_handles, [*live_attempts])


class CollectsOfOtherSinks(Table):
    def others(self) -> Iterator[Who]:
        yield from (who for who in self.shop.staged if who[0] == self.who[0])

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        dead = []
        for staged in [self.shop.staged[who] for who in self.others()]:
            dead += [one for one in staged if self.is_dead(one, live_handles, live_attempts)]
            for one in {*dead} & staged.keys():
                del staged[one]
        return sorted(dead)


class CollectsOfOtherJobs(CollectsOfOtherSinks):
    def others(self) -> Iterator[Who]:
        yield from (who for who in self.shop.staged if who[1] == self.who[1])


class CollectsWhatIsReleased(Table):
    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        shown = self.entry.shown
        shown[:] = [one for one in shown if not self.is_dead(one[0], live_handles, live_attempts)]
        return super().collect_garbage(live_handles, live_attempts)


class CollectsWhatIsUnderWay(Table):
    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        self.taken.clear()
        return super().collect_garbage(live_handles, live_attempts)


class ForgetsWhatItCollectsNot(Table):
    """Forgets the released handles that a clean-up does not list as live."""

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        self.entry.released &= {*live_handles}
        return super().collect_garbage(live_handles, live_attempts)


class StopsAtWhatItCannotDelete(Table):
    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        dead = sorted(one for one in self.mine if self.is_dead(one, live_handles, live_attempts))
        self.delete_staged(dead)
        return dead


class LeavesInSilence(Table):
    """Deletes what it can, and reports nothing that it cannot delete."""

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        try:
            return super().collect_garbage(live_handles, live_attempts)
        except GarbageLeftError as error:
            return list(error.data["deleted"])


class TellsOfOtherSinks(Table):
    def staged(self) -> Mapping[str, Sequence[int]] | None:
        return {one: [10] for staged in self.shop.staged.values() for one in staged}


class TellsOfWhatIsReleased(Table):
    def staged(self) -> Mapping[str, Sequence[int]] | None:
        return {one: [10] for one in {*self.mine, *(name for name, _ in self.entry.shown)}}


class DeletesWhatIsReleased(Table):
    def delete_staged(self, ids: Collection[str]) -> None:
        super().delete_staged(ids)
        self.entry.shown[:] = [one for one in self.entry.shown if one[0] not in ids]


def number(name: str) -> int:
    return int(name.rsplit("-", 2)[1])


BROKEN: dict[type[Table], set[str]] = {
    StagesInSight: {"invisible_until"},
    StagesInItsProcess: {"handles_of_another_process"},
    StagesABatchInOnePlace: {"r5_a_repeated_batch"},
    ReadsTheFrameTwice: {"r18"},
    StagesAnEmptyBatch: {"an_empty_batch"},
    DoesNotSync: {"durable"},
    IsDefinedAnewEachTime: {"the_definition"},
    CountsNothingInItsHandle: {"invisible_until", "counts_the_rows_of_all"},
    GivesAHandleOfItsOwn: {"invisible_until"},
    DoesOneThingAtATime: {"staged_while_others"},
    RefusesToReleaseNothing: {"nothing_is_released_at_first"},
    RemembersTheLastInMemory: {"last_released_is_read"},
    CountsARepeatAsNothing: {"releasing_again"},
    CountsTheLastBatch: {"counts_the_rows_of_all"},
    CountsWhatIsNoCount: {"counts_the_rows_of_all"},
    ReleasesAnyCheckpoint: {"a_lower_checkpoint"},
    ForgetsHandles: {"covers_more", "covers_an_empty", "by_a_higher", "nobody_heard_of"},
    ReleasesWhateverComes: {"zombie_that_releases_late"},
    RemembersTheLastRelease: {"nobody_heard_of"},
    KnowsBatchesByNumber: {"subtasks_number"},
    ReleasesOneOfEachNumber: {"subtasks_number"},
    ExpectsNumbersToAscend: {"subtasks_number"},
    StopsAtAnEmptyBatch: {"counts_the_rows_of_all"},
    TakesWhatIsGoneForNothing: {"no_longer_whole"},
    ShowsBeforeItNotes: {"by_the_next_one", "by_a_higher"},
    LocksNothing: {"several_releasers_at_once"},
    NeedsSpark: {"r16"},
    OneEntryForAJob: {"without_seeing_each_other"},
    EmptiesWhatIsStaged: {"made_ready_again", "behind_a_clean_up"},
    BeginsItsLedgerAnew: {"made_ready_again"},
    CollectsWhatIsPublished: {"no_living_attempt"},
    CollectsWhatMayBePublished: {"no_living_attempt", "theirs"},
    ListsAttempts: {"theirs"},
    CollectsOfOtherSinks: {"no_living_attempt", "theirs"},
    CollectsOfOtherJobs: {"theirs"},
    CollectsWhatIsReleased: {"is_no_garbage"},
    CollectsWhatIsUnderWay: {"behind_a_clean_up"},
    ForgetsWhatItCollectsNot: {"is_no_garbage"},
    StopsAtWhatItCannotDelete: {"cannot_be_deleted"},
    LeavesInSilence: {"cannot_be_deleted"},
    TellsOfOtherSinks: {"it_deletes_and_nothing_else", "theirs"},
    TellsOfWhatIsReleased: {"was_told_as_staged"},
    DeletesWhatIsReleased: {"was_told_as_staged"},
}
"""Broken sink → parts of the names of tests that must fail for it. Other tests may fail, too."""


@dataclass
class InShop(SinkTarget):
    kind: type[Table]
    shop: Shop = field(default_factory=Shop)

    def bind(self, job_id: str = "orders", uid: str = "lake") -> Table:
        return self.kind((job_id, uid), self.shop, Process())

    def dying(self, at: int, when: When) -> Table:
        return self.kind(("orders", "lake"), self.shop, Process(at, when))

    def refusing(self, handle: Handle) -> Table:
        self.shop.undeletable.add(handle["id"])
        return self.bind()

    def damage(self, handle: Handle, how: Damage) -> None:
        del self.shop.staged["orders", "lake"][handle["id"]]

    def synced(self, spark: Any, frame: Any) -> bool:
        return self.kind.synced

    def definition(self) -> Mapping[str, Any]:
        return self.bind().definition()

    def rows(self, spark: Any) -> list[Row]:
        return sorted(row for entry in self.shop.entries.values() for _, row in entry.shown)

    def staged(self) -> list[str]:
        return sorted(one for staged in self.shop.staged.values() for one in staged)


class Frame:
    """Frame that is computed again on each read."""

    def __init__(self, rows: Sequence[Row], function: Callable[[Row], Row] = lambda row: row) -> None:
        self.rows, self.function = rows, function

    def __iter__(self) -> Iterator[Row]:
        return map(self.function, self.rows)

    def map(self, function: Callable[[Row], Row]) -> Frame:
        return Frame(self.rows, function)


class Accumulator:
    value = 0

    def add(self, number: int) -> None:
        self.value += number


class Session:
    """Spark session with only the parts that the suite uses."""

    @property
    def sparkContext(self) -> Session:
        return self

    def accumulator(self, value: int) -> Accumulator:
        return Accumulator()

    def parallelize(self, rows: Sequence[Row], slices: int) -> Frame:
        return Frame(rows)

    def createDataFrame(self, frame: Frame, schema: str) -> Frame:
        return frame


class Suite(SinkConformance):
    def frame(self, spark: Any, *ids: int) -> Any:
        return expected(ids)


Call = tuple[str, Mapping[str, Any]]


def calls() -> Iterator[Call]:
    """Yield each test of the suite with each of its parameters, except the group tests, which have their own file."""
    for name, test in inspect.getmembers(Suite, inspect.isfunction):
        marks = [mark.args for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
        if name.startswith("test_") and not hasattr(GroupConformance, name):
            for values in itertools.product(*(values for _, values in marks)):
                yield name, dict(zip((names for names, _ in marks), values, strict=True))


def run(call: Call, kind: type[Table], patch: pytest.MonkeyPatch) -> None:
    name, given = call
    test, target = getattr(Suite(), name), InShop(kind)
    sink = target.bind()
    sink.prepare()
    fixtures = {"spark": Session(), "target": target, "sink": sink}
    with patch.context() as patched:
        patched.setattr(SparkContext, "_active_spark_context", object())
        test(**{one: fixtures[one] for one in inspect.signature(test).parameters if one in fixtures}, **given)


@pytest.mark.parametrize("call", list(calls()), ids=str)
def test_a_sink_that_keeps_its_promises_passes(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    run(call, Table, monkeypatch)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_one_that_does_not_is_noticed(kind: type[Table], monkeypatch: pytest.MonkeyPatch) -> None:
    failed = set()
    for call in calls():
        try:
            run(call, kind, monkeypatch)
        except (Exception, pytest.fail.Exception):
            failed.add(call[0])
    missing = {part for part in BROKEN[kind] if not any(part in name for name in failed)}
    assert missing == set()


def test_each_test_of_the_suite_notices_something() -> None:
    noticed = set[str]().union(*BROKEN.values())
    assert [name for name, _ in calls() if not any(part in name for part in noticed)] == []
