"""Releases as asset events. Each release with rows is an event, whatever dies between them."""

from __future__ import annotations

import asyncio
import importlib
import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased, JobCreated, SinkReleased
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.release import CheckpointReleaseTrigger
from tests.airflow.driver_journal import end, start_driver
from tests.support.checksum import without_checksum

Journals = Callable[[str], Journal]


class Store:
    """State store of an asset. ``several``: the trigger is watched for several assets."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.several = False
        self.refuses = 0
        self.error: Exception = AirflowException("the API server does not answer")

    def _answer(self) -> None:
        if self.refuses:
            self.refuses -= 1
            raise self.error

    async def aget(self, key: str) -> Any:
        self._answer()
        if self.several:
            raise ValueError("Task has 2 concrete inlets and outlets")
        return json.loads(json.dumps(self.kept.get(key)))

    async def aset(self, key: str, value: Any) -> None:
        self._answer()
        self.kept[key] = json.loads(json.dumps(value))


def created(journal: Journal, at: float = 1.0) -> Journal:
    writer = start_driver(journal)
    writer.write(JobCreated("orders", JobGraph((), ()), "streaming", SubmittedOptions({}), at))
    return writer


def release(journal: Journal, checkpoint: int, **rows: int) -> None:
    journal.write(CheckpointCompleted(checkpoint, 1.0, 2.0, "checkpoint", {}, {}))
    sinks = {uid: {"rows": count, "files": 1} for uid, count in rows.items()}
    journal.write(CheckpointReleased(checkpoint, 3.0, sinks))


class Watcher:
    """Trigger run as by a triggerer. ``events``: the events that Airflow has."""

    def __init__(self, root: str, store: Store | None, **arguments: Any) -> None:
        self.trigger: Any = CheckpointReleaseTrigger(job_id="orders", root=root, poll_interval=0.001, **arguments)
        self.trigger.asset_state_store = store  # type: ignore[assignment]
        self.events: list[dict[str, Any]] = []
        self._polls = 0

    def until(self, *steps: Callable[[], object]) -> list[dict[str, Any]]:
        """Run the trigger, take each step after two more polls, and return the events two polls after the last step."""
        asyncio.run(self._until(steps))
        return self.events

    async def _until(self, steps: tuple[Callable[[], object], ...]) -> None:
        running = asyncio.create_task(self._take())
        for step in (*steps, lambda: None):
            await self._poll_twice(running)
            step()  # type: ignore[no-untyped-call]
        await self._poll_twice(running)
        running.cancel()

    async def _poll_twice(self, running: asyncio.Task[None]) -> None:
        until = self._polls + 2
        while self._polls < until:
            assert not running.done(), running
            await asyncio.sleep(0.001)

    async def _take(self) -> None:
        client = self.trigger._client

        async def counted() -> Any:
            made = await client()
            look = made.read_state

            def counting() -> Any:
                self._polls += 1
                return look()

            made.read_state = counting
            return made

        self.trigger._client = counted
        async for event in self.trigger.run():
            self.events.append(event.payload)


def checkpoints(events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(event["after"], event["checkpoint"]) for event in events]


def test_each_release_with_rows_is_one_event(root: Storage, journal: Journals) -> None:
    writer = created(journal("orders"))
    release(writer, 1, out=5)
    events = Watcher(root.uri, Store()).until(
        lambda: release(writer, 2, out=3, copy=4),
        lambda: release(writer, 3, out=0),
        lambda: release(writer, 4, out=1),
        lambda: release(writer, 5, copy=2),
    )
    assert checkpoints(events) == [(1, 2), (2, 4), (4, 5)]
    assert events[0] == {
        "job_id": "orders",
        "checkpoint": 2,
        "after": 1,
        "kind": "checkpoint",
        "released_at": 3.0,
        "watermark": None,
        "rows": 7,
        "sinks": {"out": {"rows": 3, "files": 1}, "copy": {"rows": 4, "files": 1}},
        "late_rows": 0,
        "unfit_rows": 0,
        "malformed_rows": 0,
    }


def test_events_of_one_sink_count_only_its_rows(root: Storage, journal: Journals) -> None:
    writer = created(journal("orders"))
    events = Watcher(root.uri, Store(), sink="out").until(
        lambda: release(writer, 1, out=0, copy=4), lambda: release(writer, 2, out=3, copy=4)
    )
    assert (checkpoints(events), events[0]["rows"], list(events[0]["sinks"])) == ([(0, 2)], 3, ["out"])


def test_an_unknown_sink_is_logged_as_a_warning(root: Storage, journal: Journals) -> None:
    """Otherwise the trigger would wait silently for its releases."""
    writer = start_driver(journal("orders"))
    graph = JobGraph((JobVertex("live", ("live",), ("live",), (), ("lake",), bounded=False),), ())
    writer.write(JobCreated("orders", graph, "streaming", SubmittedOptions({}), 1.0))
    warnings: dict[str, list[str]] = {"lale": [], "lake": []}
    for sink, lines in warnings.items():
        watcher = Watcher(root.uri, Store(), sink=sink)
        watcher.trigger._warn_once = lines.append
        watcher.until(lambda: None)
    assert warnings["lale"][0] == ("it has no sink 'lale', so no events come. Did you mean 'lake'? It has: lake")
    assert warnings["lake"] == []


def test_releases_between_two_watches_are_reported_later(root: Storage, journal: Journals) -> None:
    writer, store = created(journal("orders")), Store()
    assert checkpoints(Watcher(root.uri, store).until(lambda: release(writer, 1, out=1))) == [(0, 1)]
    release(writer, 2, out=1)
    release(writer, 3, out=1)
    assert checkpoints(Watcher(root.uri, store).until()) == [(1, 2), (2, 3)]
    assert Watcher(root.uri, store).until() == []


def test_an_unconfirmed_event_is_sent_again(root: Storage, journal: Journals) -> None:
    """The triggerer dies between the event and the next poll, so it is unknown whether Airflow has the event."""
    writer, store = created(journal("orders")), Store()
    Watcher(root.uri, store).until(lambda: release(writer, 1, out=1))
    release(writer, 2, out=1)

    async def first_event() -> Any:
        return (await anext(Watcher(root.uri, store).trigger.run())).payload

    assert asyncio.run(first_event())["checkpoint"] == 2
    assert checkpoints(Watcher(root.uri, store).until()) == [(1, 2)]


def test_events_of_a_new_job_begin_with_its_first_release(root: Storage, journal: Journals) -> None:
    def begin() -> None:
        release(created(journal("orders")), 1, out=1)

    assert checkpoints(Watcher(root.uri, Store()).until(begin)) == [(0, 1)]


def test_a_missing_root_is_not_taken_for_a_new_job(root: Storage, journal: Journals, tmp_path: Path) -> None:
    writer, store = created(journal("orders")), Store()
    release(writer, 1, out=1)
    place = Path(root.uri.removeprefix("file://"))

    def move_away() -> None:
        shutil.move(place, tmp_path / "away")

    def bring_back() -> None:
        shutil.move(tmp_path / "away", place)

    assert Watcher(root.uri, store).until(move_away, bring_back) == []
    shutil.rmtree(place / "orders")
    release(created(journal("orders"), at=2.0), 1, out=1)
    assert checkpoints(Watcher(root.uri, store).until()) == [(0, 1)]


def test_a_watched_job_may_be_deleted_and_created_again(root: Storage, journal: Journals) -> None:
    writer = created(journal("orders"))
    for number in range(1, 9):
        release(writer, number, out=1)
    end(writer, "FINISHED")
    place = Path(root.uri.removeprefix("file://"))

    def create_again() -> None:
        shutil.rmtree(place / "orders")
        release(created(journal("orders"), at=2.0), 1, out=1)

    assert checkpoints(Watcher(root.uri, Store()).until(create_again)) == [(0, 1)]


@pytest.mark.parametrize("stored", [None, 7, "7", {}, {"checkpoint": "7", "created": 1.0}, {"other": 1}])
def test_an_invalid_stored_position_is_replaced(root: Storage, journal: Journals, stored: Any) -> None:
    writer, store = created(journal("orders")), Store()
    release(writer, 1, out=1)
    store.kept["ckpt_release/orders/"] = stored
    assert checkpoints(Watcher(root.uri, store).until(lambda: release(writer, 2, out=1))) == [(1, 2)]
    assert store.kept["ckpt_release/orders/"] == {"created": 1.0, "checkpoint": 2}


def test_a_trigger_of_several_assets_reports_releases_without_a_store(
    root: Storage, journal: Journals, caplog: pytest.LogCaptureFixture
) -> None:
    writer, store = created(journal("orders")), Store()
    store.several = True
    assert checkpoints(Watcher(root.uri, store).until(lambda: release(writer, 1, out=1))) == [(0, 1)]
    assert store.kept == {}


@pytest.mark.parametrize(
    ("entry", "wrong", "problem"),
    [
        (-1, lambda right: right.replace(b'"version": 1', b'"version": 99'), "of version 99"),
        (-1, lambda right: right[:-9], "no JSON"),
        (0, lambda right: right.replace(b'"number": 0', b'"number": 4'), "its own number is 4"),
    ],
    ids=["of a later release", "half", "the first one"],
)
def test_a_damaged_journal_is_logged_and_polled_again(
    root: Storage, journal: Journals, entry: int, wrong: Callable[[bytes], bytes], problem: str
) -> None:
    """After the repair no event is repeated, because the journal's first entry identifies it."""
    writer = created(journal("orders"))
    release(writer, 1, out=1)
    end(writer, "STOPPED")
    place = sorted((Path(root.uri.removeprefix("file://")) / "orders" / "journal").glob("0*.json"))[entry]
    right = without_checksum(place.read_bytes())
    assert wrong(right) != right
    place.write_bytes(wrong(right))
    store = Store()
    store.kept["ckpt_release/orders/"] = {"created": 1.0, "checkpoint": 1}

    def repair() -> None:
        """Repair the entry in one step, because the trigger may poll meanwhile."""
        beside = place.with_suffix(".new")
        beside.write_bytes(right)
        beside.replace(place)
        release(writer, 2, out=1)

    watcher = Watcher(root.uri, store)
    warnings: list[str] = []
    watcher.trigger._warn_once = warnings.append
    assert checkpoints(watcher.until(repair)) == [(1, 2)]
    assert problem in warnings[-1]


@pytest.mark.parametrize("error", [AirflowException("503"), RuntimeError("a bug of a backend")], ids=repr)
def test_a_failing_asset_store_is_retried(root: Storage, journal: Journals, error: Exception) -> None:
    writer, store = created(journal("orders")), Store()
    store.refuses, store.error = 3, error
    assert checkpoints(Watcher(root.uri, store).until(*[lambda: None] * 3, lambda: release(writer, 1, out=1))) == [
        (0, 1)
    ]
    assert store.kept["ckpt_release/orders/"]["checkpoint"] == 1


def test_a_release_trigger_is_rebuilt_from_its_arguments(root: Storage) -> None:
    path, arguments = CheckpointReleaseTrigger(job_id="orders", sink="out", ckpt_conn_id="lake").serialize()
    module, _, name = path.rpartition(".")
    made = getattr(importlib.import_module(module), name)(**json.loads(json.dumps(arguments)))
    assert (made.job_id, made.sink, made.ckpt_conn_id) == ("orders", "out", "lake")


def test_releases_of_a_job_deleted_right_after_its_end_are_reported(root: Storage, journal: Journals) -> None:
    store = Store()
    writer = created(journal("orders"))
    release(writer, 1, lake=10)
    Watcher(root.uri, store).until()

    def over() -> None:
        release(writer, 2, lake=20)
        end(writer, "FINISHED")
        JobClient(root, "orders").delete()

    # events of releases found at once come with later polls
    events = Watcher(root.uri, store).until(over, *[lambda: None] * 10)
    assert checkpoints(events) == [(1, 2)]
    assert events[0]["sinks"] == {"lake": {"rows": 20, "files": 1}}
    assert Watcher(root.uri, store).until() == []


def test_a_watch_of_a_sink_ahead_of_its_job_begins_with_the_next_release(root: Storage, journal: Journals) -> None:
    """A gate holds the other sink from the beginning, so the job as a whole has released nothing."""
    writer = created(journal("orders"))

    def of_one_sink(checkpoint: int) -> None:
        writer.write(CheckpointCompleted(checkpoint, 1.0, 2.0, "checkpoint", {}, {}))
        writer.write(SinkReleased("out", checkpoint, 3.0, {"rows": 5}))
        writer.flush()

    for number in (1, 2, 3):
        of_one_sink(number)
    events = Watcher(root.uri, Store(), sink="out").until(lambda: of_one_sink(4))
    assert checkpoints(events) == [(3, 4)]


@pytest.mark.parametrize(
    "given",
    [
        {"poll_interval": 0},
        {"poll_interval": -5},
        {"poll_interval": None},
        {"poll_interval": "often"},
        {"job_id": ""},
        {"job_id": None},
        {"job_id": "a/b"},
    ],
)
def test_invalid_trigger_arguments_are_refused_when_the_dag_is_parsed(given: dict[str, Any]) -> None:
    """A negative interval kept a triggerer busy. A text that is no number ended the watch after the first poll."""
    with pytest.raises(InvalidInputError):
        CheckpointReleaseTrigger(**{"job_id": "orders", **given})


@pytest.mark.parametrize("given", [90, "1m30s", timedelta(seconds=90)])
def test_the_poll_interval_may_be_given_as_any_duration(given: Any) -> None:
    _, kwargs = CheckpointReleaseTrigger(job_id="orders", poll_interval=given).serialize()
    assert kwargs["poll_interval"] == 90.0
