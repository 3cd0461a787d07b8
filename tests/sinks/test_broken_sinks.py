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

Owner = tuple[str, str]
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

    entries: dict[Owner, Entry] = field(default_factory=dict)
    staged: dict[Owner, Rows] = field(default_factory=dict)
    taken: dict[Owner, Rows] = field(default_factory=dict)
    """Batches of a release in progress."""
    undeletable: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    meeting: threading.Barrier = field(default_factory=lambda: threading.Barrier(3))


class Table(BoundSink):
    """Correct sink."""

    synced = True

    def __init__(self, owner: Owner, shop: Shop, process: Process) -> None:
        self.owner, self.shop, self.process = owner, shop, process
        self.mine, self.taken = shop.staged.setdefault(owner, {}), shop.taken.setdefault(owner, {})
        self.lock: Any = shop.lock

    @property
    def entry(self) -> Entry:
        return self.shop.entries.setdefault(self.owner, Entry())

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
            if self.is_released(entry, checkpoint):
                return {"rows": entry.rows if checkpoint == entry.last else 0}
            rows = {handle["id"]: self.rows_of(handle["id"], checkpoint) for handle in self.waiting(entry, handles)}
            if not rows:
                return {"rows": 0}
            self.process.step(lambda: self.take(rows))
            self.record(entry, rows, checkpoint)
            self.process.step(lambda: self.commit(entry, rows))
            return {"rows": self.counted(rows)}

    def is_released(self, entry: Entry, checkpoint: int) -> bool:
        return checkpoint <= entry.last

    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        return [handle for handle in handles if handle["rows"] and handle["id"] not in entry.released]

    def rows_of(self, name: str, checkpoint: int) -> list[Row]:
        rows = self.mine.get(name, self.taken.get(name))
        if rows is None:
            job, uid = self.owner
            raise StagedFilesMissingError(job=job, checkpoint=checkpoint, sink=uid, count=1, path=name, uri="shop")
        return rows

    def take(self, rows: Rows) -> None:
        self.taken.update({batch: self.mine.pop(batch) for batch in rows if batch in self.mine})

    def record(self, entry: Entry, rows: Rows, checkpoint: int) -> None:
        entry.last, entry.rows = checkpoint, self.counted(rows)
        entry.released |= rows.keys()
        entry.shown += [(batch, row) for batch, of in rows.items() for row in of]

    def counted(self, rows: Rows) -> int:
        return sum(map(len, rows.values()))

    def commit(self, entry: Entry, rows: Rows) -> None:
        self.shop.entries[self.owner] = entry
        for batch in rows:
            self.taken.pop(batch, None)

    def last_released(self) -> int:
        return self.entry.last

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        left, deleted = [], []
        for name in sorted(batch for batch in self.mine if self.is_dead(batch, live_handles, live_attempts)):
            try:
                self.delete_staged([name])
                deleted.append(name)
            except TerminalError:
                left.append(name)
        if left:
            raise GarbageLeftError("{left} stay in the shop", left=left, deleted=deleted)
        return deleted

    def is_dead(self, name: str, live_handles: Collection[str], live_attempts: Collection[str]) -> bool:
        return name not in live_handles and attempt_of(name) not in live_attempts

    def staged(self) -> Mapping[str, Sequence[int]] | None:
        return {batch: [10] for batch in self.mine}

    def delete_staged(self, ids: Collection[str]) -> None:
        for batch in ids:
            if batch in self.shop.undeletable:
                raise TerminalError("{batch} cannot be deleted", batch=batch)
            self.mine.pop(batch, None)


# ---- broken sinks


class StagesVisibly(Table):
    def keep(self, name: str, rows: list[Row]) -> None:
        super().keep(name, rows)
        self.entry.shown += [(name, row) for row in rows]


class StagesInItsMemory(Table):
    def __init__(self, owner: Owner, shop: Shop, process: Process) -> None:
        super().__init__(owner, shop, process)
        self.here: Rows = {}

    def keep(self, name: str, rows: list[Row]) -> None:
        super().keep(name, rows)
        self.here[name] = rows

    def rows_of(self, name: str, checkpoint: int) -> list[Row]:
        return self.here[name]


class OverwritesARepeatedBatch(Table):
    def keep(self, name: str, rows: list[Row]) -> None:
        for batch in [one for one in self.mine if one.rsplit("-", 1)[0] == name.rsplit("-", 1)[0]]:
            del self.mine[batch]
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


class ChangesItsDefinition(Table):
    def definition(self) -> Mapping[str, Any]:
        return {"type": "Table", "at": time.perf_counter_ns()}


class CountsZeroInItsHandle(Table):
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        return super().release([{**handle, "rows": handle["count"]} for handle in handles], checkpoint)

    def stage(self, frame: Any, request: StageRequest) -> Handle:
        handle = super().stage(frame, request)
        return {**handle, "rows": 0, "count": handle["rows"]}


class ReturnsAnotherHandleId(Table):
    def stage(self, frame: Any, request: StageRequest) -> Handle:
        rows, name = list(frame), f"{request.id}x"
        self.keep(name, rows)
        return {"id": name, "rows": len(rows)}


class IsNotThreadSafe(Table):
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


class FailsWithoutHandles(Table):
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        return {"rows": super().release(handles, checkpoint)["rows"] // len(handles) * len(handles)}


class KeepsLastReleasedInMemory(Table):
    def __init__(self, owner: Owner, shop: Shop, process: Process) -> None:
        super().__init__(owner, shop, process)
        self.last = self.entry.last

    def last_released(self) -> int:
        return self.last

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        counts = super().release(handles, checkpoint)
        self.last = max(self.last, checkpoint)
        return counts


class CountsARepeatAsZero(Table):
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        return {"rows": 0} if self.is_released(self.entry, checkpoint) else super().release(handles, checkpoint)


class CountsTheLastBatch(Table):
    def counted(self, rows: Rows) -> int:
        return len([*rows.values()][-1])


class CountsWithFloats(Table):
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        return {name: float(count) for name, count in super().release(handles, checkpoint).items()}  # type: ignore[misc]


class ReleasesAnyCheckpoint(Table):
    def is_released(self, entry: Entry, checkpoint: int) -> bool:
        return False


class ForgetsHandles(Table):
    """Knows released checkpoints, but no released handles."""

    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        return [handle for handle in handles if handle["rows"]]

    def rows_of(self, name: str, checkpoint: int) -> list[Row]:
        shown = [row for batch, row in self.entry.shown if batch == name]
        return shown or super().rows_of(name, checkpoint)


class ReleasesEverythingAgain(ForgetsHandles):
    def is_released(self, entry: Entry, checkpoint: int) -> bool:
        return False


class RemembersTheLastRelease(ForgetsHandles):
    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        return Table.waiting(self, entry, handles)

    def record(self, entry: Entry, rows: Rows, checkpoint: int) -> None:
        entry.released.clear()
        super().record(entry, rows, checkpoint)


class KnowsBatchesByNumber(Table):
    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        released = {number(batch) for batch in entry.released}
        return [handle for handle in super().waiting(entry, handles) if number(handle["id"]) not in released]


class ReleasesOneOfEachNumber(Table):
    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        return [*{number(handle["id"]): handle for handle in super().waiting(entry, handles)}.values()]


class ExpectsNumbersToAscend(Table):
    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        highest = max(map(number, entry.released), default=-1)
        return [handle for handle in super().waiting(entry, handles) if number(handle["id"]) > highest]


class StopsAtAnEmptyBatch(Table):
    def waiting(self, entry: Entry, handles: Sequence[Handle]) -> list[Handle]:
        return super().waiting(entry, [*itertools.takewhile(lambda handle: handle["rows"], handles)])


class IgnoresMissingBatches(Table):
    def rows_of(self, name: str, checkpoint: int) -> list[Row]:
        with suppress(StagedFilesMissingError):
            return super().rows_of(name, checkpoint)
        return []


class ShowsBeforeItRecords(Table):
    def take(self, rows: Rows) -> None:
        super().take(rows)
        self.entry.shown += [(batch, row) for batch, of in rows.items() for row in of]

    def record(self, entry: Entry, rows: Rows, checkpoint: int) -> None:
        super().record(entry, rows, checkpoint)
        entry.shown = self.entry.shown


class DoesNotLock(Table):
    def __init__(self, owner: Owner, shop: Shop, process: Process) -> None:
        super().__init__(owner, shop, process)
        self.lock = nullcontext()

    def is_released(self, entry: Entry, checkpoint: int) -> bool:
        with suppress(threading.BrokenBarrierError):  # all threads read before one writes
            self.shop.meeting.wait(0.02)
        return super().is_released(entry, checkpoint)

    def commit(self, entry: Entry, rows: Rows) -> None:
        """Add the rows as INSERTs would: concurrent commits keep each other's rows."""
        entry.shown = [*self.entry.shown, *((batch, row) for batch, of in rows.items() for row in of)]
        super().commit(entry, rows)


class NeedsSpark(Table):
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        assert SparkContext._active_spark_context is not None
        return super().release(handles, checkpoint)


class SharesOneEntryInAJob(Table):
    def __init__(self, owner: Owner, shop: Shop, process: Process) -> None:
        super().__init__(owner, shop, process)
        self.owner = (owner[0], "")


class DeletesStagedBatchesInPrepare(Table):
    def prepare(self) -> None:
        self.mine.clear()


class ResetsItsLedger(Table):
    def prepare(self) -> None:
        self.entry.last = 0
        self.entry.released.clear()


class CollectsPublishedBatches(Table):
    def is_dead(self, name: str, live_handles: Collection[str], live_attempts: Collection[str]) -> bool:
        return attempt_of(name) not in live_attempts


class CollectsLiveAttempts(Table):
    def is_dead(self, name: str, live_handles: Collection[str], live_attempts: Collection[str]) -> bool:
        return name not in live_handles


class ListsAttempts(Table):
    def is_dead(self, name: str, live_handles: Collection[str], live_attempts: Collection[str]) -> bool:
        return super().is_dead(name, live_handles, [*live_attempts])


class CollectsFromOtherSinks(Table):
    def searched_owners(self) -> Iterator[Owner]:
        yield from (owner for owner in self.shop.staged if owner[0] == self.owner[0])

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        dead = []
        for staged in [self.shop.staged[owner] for owner in self.searched_owners()]:
            dead += [batch for batch in staged if self.is_dead(batch, live_handles, live_attempts)]
            for batch in {*dead} & staged.keys():
                del staged[batch]
        return sorted(dead)


class CollectsFromOtherJobs(CollectsFromOtherSinks):
    def searched_owners(self) -> Iterator[Owner]:
        yield from (owner for owner in self.shop.staged if owner[1] == self.owner[1])


class CollectsReleasedBatches(Table):
    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        shown = self.entry.shown
        shown[:] = [item for item in shown if not self.is_dead(item[0], live_handles, live_attempts)]
        return super().collect_garbage(live_handles, live_attempts)


class CollectsBatchesInRelease(Table):
    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        self.taken.clear()
        return super().collect_garbage(live_handles, live_attempts)


class ForgetsUnlistedHandles(Table):
    """Forgets the released handles that a clean-up does not list as live."""

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        self.entry.released &= {*live_handles}
        return super().collect_garbage(live_handles, live_attempts)


class StopsAtWhatItCannotDelete(Table):
    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        dead = sorted(batch for batch in self.mine if self.is_dead(batch, live_handles, live_attempts))
        self.delete_staged(dead)
        return dead


class LeavesInSilence(Table):
    """Deletes what it can, and reports nothing that it cannot delete."""

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        try:
            return super().collect_garbage(live_handles, live_attempts)
        except GarbageLeftError as error:
            return list(error.data["deleted"])


class ListsOtherSinks(Table):
    def staged(self) -> Mapping[str, Sequence[int]] | None:
        return {batch: [10] for staged in self.shop.staged.values() for batch in staged}


class ListsReleasedBatches(Table):
    def staged(self) -> Mapping[str, Sequence[int]] | None:
        return {batch: [10] for batch in {*self.mine, *(name for name, _ in self.entry.shown)}}


class DeletesReleasedBatches(Table):
    def delete_staged(self, ids: Collection[str]) -> None:
        super().delete_staged(ids)
        self.entry.shown[:] = [item for item in self.entry.shown if item[0] not in ids]


def number(name: str) -> int:
    return int(name.rsplit("-", 2)[1])


BROKEN: dict[type[Table], set[str]] = {
    StagesVisibly: {"test_staged_rows_are_invisible_until_their_checkpoint_is_released"},
    StagesInItsMemory: {"test_another_process_can_release_with_only_the_handles"},
    OverwritesARepeatedBatch: {"test_r5_a_repeated_batch_does_not_replace_the_first_one"},
    ReadsTheFrameTwice: {"test_r18_a_frame_is_computed_once"},
    StagesAnEmptyBatch: {"test_an_empty_batch_stages_nothing"},
    DoesNotSync: {"test_rows_are_durable_before_a_handle_is_returned"},
    ChangesItsDefinition: {"test_the_definition_is_plain_json_and_stable"},
    CountsZeroInItsHandle: {
        "test_staged_rows_are_invisible_until_their_checkpoint_is_released",
        "test_a_release_counts_the_rows_of_all_its_handles",
    },
    ReturnsAnotherHandleId: {"test_staged_rows_are_invisible_until_their_checkpoint_is_released"},
    IsNotThreadSafe: {"test_a_batch_is_staged_while_another_is_released"},
    FailsWithoutHandles: {"test_a_new_sink_has_released_nothing"},
    KeepsLastReleasedInMemory: {"test_last_released_is_read_from_the_target"},
    CountsARepeatAsZero: {"test_r9_releasing_again_changes_nothing"},
    CountsTheLastBatch: {"test_a_release_counts_the_rows_of_all_its_handles"},
    CountsWithFloats: {"test_a_release_counts_the_rows_of_all_its_handles"},
    ReleasesAnyCheckpoint: {"test_r9_a_lower_checkpoint_is_not_released_after_a_higher_one"},
    ForgetsHandles: {
        "test_r9_a_higher_checkpoint_skips_released_batches",
        "test_r9_a_zombie_repeats_no_rows_before_an_empty_checkpoint",
        "test_a_higher_checkpoint_completes_a_release_that_crashed_at_any_step",
        "test_r9_several_unrecorded_releases_are_skipped",
    },
    ReleasesEverythingAgain: {"test_r9_a_late_release_of_a_zombie_changes_nothing"},
    RemembersTheLastRelease: {"test_r9_several_unrecorded_releases_are_skipped"},
    KnowsBatchesByNumber: {"test_r9_subtasks_may_use_the_same_batch_numbers"},
    ReleasesOneOfEachNumber: {"test_r9_subtasks_may_use_the_same_batch_numbers"},
    ExpectsNumbersToAscend: {"test_r9_subtasks_may_use_the_same_batch_numbers"},
    StopsAtAnEmptyBatch: {"test_a_release_counts_the_rows_of_all_its_handles"},
    IgnoresMissingBatches: {"test_a_damaged_batch_prevents_the_whole_release"},
    ShowsBeforeItRecords: {
        "test_the_next_release_completes_one_that_crashed_at_any_step",
        "test_a_higher_checkpoint_completes_a_release_that_crashed_at_any_step",
    },
    DoesNotLock: {"test_r9_concurrent_releases_release_once"},
    NeedsSpark: {"test_r16_a_release_needs_no_spark"},
    SharesOneEntryInAJob: {"test_jobs_and_sinks_that_share_a_target_do_not_interfere"},
    DeletesStagedBatchesInPrepare: {
        "test_preparing_a_target_again_keeps_its_rows",
        "test_r5_a_crashed_release_is_completed_after_a_clean_up",
    },
    ResetsItsLedger: {"test_preparing_a_target_again_keeps_its_rows"},
    CollectsPublishedBatches: {"test_r5_garbage_has_neither_a_handle_nor_a_live_attempt"},
    CollectsLiveAttempts: {
        "test_r5_garbage_has_neither_a_handle_nor_a_live_attempt",
        "test_r5_a_sink_does_not_delete_the_garbage_of_other_jobs",
    },
    ListsAttempts: {"test_r5_a_sink_does_not_delete_the_garbage_of_other_jobs"},
    CollectsFromOtherSinks: {
        "test_r5_garbage_has_neither_a_handle_nor_a_live_attempt",
        "test_r5_a_sink_does_not_delete_the_garbage_of_other_jobs",
    },
    CollectsFromOtherJobs: {"test_r5_a_sink_does_not_delete_the_garbage_of_other_jobs"},
    CollectsReleasedBatches: {"test_r5_released_rows_are_not_garbage"},
    CollectsBatchesInRelease: {"test_r5_a_crashed_release_is_completed_after_a_clean_up"},
    ForgetsUnlistedHandles: {"test_r5_released_rows_are_not_garbage"},
    StopsAtWhatItCannotDelete: {"test_r5_garbage_that_cannot_be_deleted_keeps_no_other"},
    LeavesInSilence: {"test_r5_garbage_that_cannot_be_deleted_keeps_no_other"},
    ListsOtherSinks: {
        "test_r5_a_sink_deletes_only_the_staged_output_that_it_lists",
        "test_r5_a_sink_does_not_delete_the_garbage_of_other_jobs",
    },
    ListsReleasedBatches: {"test_r5_deleting_an_old_list_of_staged_output_keeps_released_rows"},
    DeletesReleasedBatches: {"test_r5_deleting_an_old_list_of_staged_output_keeps_released_rows"},
}
"""Broken sink → names of tests that must fail for it. Other tests may fail, too."""


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
        return sorted(batch for staged in self.shop.staged.values() for batch in staged)


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
        test(
            **{
                parameter: fixtures[parameter]
                for parameter in inspect.signature(test).parameters
                if parameter in fixtures
            },
            **given,
        )


@pytest.mark.parametrize("call", list(calls()), ids=str)
def test_a_correct_sink_passes_the_suite(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    run(call, Table, monkeypatch)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_sink_fails_the_expected_tests(kind: type[Table], monkeypatch: pytest.MonkeyPatch) -> None:
    failed = set()
    for call in calls():
        try:
            run(call, kind, monkeypatch)
        except (Exception, pytest.fail.Exception):
            failed.add(call[0])
    assert BROKEN[kind] <= failed


def test_each_test_of_the_suite_fails_for_some_broken_sink() -> None:
    noticed = set[str]().union(*BROKEN.values())
    assert [name for name, _ in calls() if name not in noticed] == []
