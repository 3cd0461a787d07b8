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

    def _answer(self) -> None:
        if self.refuses:
            self.refuses -= 1
            raise AirflowException("the API server does not answer")

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
        self._looks = 0

    def until(self, *steps: Callable[[], object]) -> list[dict[str, Any]]:
        """Run the trigger, take each step after two more polls, and return the events two polls after the last step."""
        asyncio.run(self._until(steps))
        return self.events

    async def _until(self, steps: tuple[Callable[[], object], ...]) -> None:
        running = asyncio.create_task(self._take())
        for step in (*steps, lambda: None):
            await self._look_twice(running)
            step()  # type: ignore[no-untyped-call]
        await self._look_twice(running)
        running.cancel()

    async def _look_twice(self, running: asyncio.Task[None]) -> None:
        until = self._looks + 2
        while self._looks < until:
            assert not running.done(), running
            await asyncio.sleep(0.001)

    async def _take(self) -> None:
        client = self.trigger._client

        async def counted() -> Any:
            made = await client()
            look = made.look

            def counting() -> Any:
                self._looks += 1
                return look()

            made.look = counting
            return made

        self.trigger._client = counted
        async for event in self.trigger.run():
            self.events.append(event.payload)


def checkpoints(events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(event["after"], event["checkpoint"]) for event in events]


def test_each_release_of_rows_is_told_once_and_says_what_is_new(root: Storage, journal: Journals) -> None:
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


def test_of_one_sink_only_its_rows_count(root: Storage, journal: Journals) -> None:
    writer = created(journal("orders"))
    events = Watcher(root.uri, Store(), sink="out").until(
        lambda: release(writer, 1, out=0, copy=4), lambda: release(writer, 2, out=3, copy=4)
    )
    assert (checkpoints(events), events[0]["rows"], list(events[0]["sinks"])) == ([(0, 2)], 3, ["out"])


def test_a_sink_that_the_job_has_not_is_told_of(root: Storage, journal: Journals) -> None:
    """Otherwise the trigger would wait silently for its releases."""
    writer = start_driver(journal("orders"))
    graph = JobGraph((JobVertex("live", ("live",), ("live",), (), ("lake",), bounded=False),), ())
    writer.write(JobCreated("orders", graph, "streaming", SubmittedOptions({}), 1.0))
    said: dict[str, list[str]] = {"lale": [], "lake": []}
    for sink, lines in said.items():
        watcher = Watcher(root.uri, Store(), sink=sink)
        watcher.trigger._warn_once = lines.append
        watcher.until(lambda: None)
    assert said["lale"][0] == ("it has no sink 'lale', so no events come. Did you mean 'lake'? It has: lake")
    assert said["lake"] == []


def test_what_is_released_while_nobody_looks_is_told_later(root: Storage, journal: Journals) -> None:
    writer, store = created(journal("orders")), Store()
    assert checkpoints(Watcher(root.uri, store).until(lambda: release(writer, 1, out=1))) == [(0, 1)]
    release(writer, 2, out=1)
    release(writer, 3, out=1)
    assert checkpoints(Watcher(root.uri, store).until()) == [(1, 2), (2, 3)]
    assert Watcher(root.uri, store).until() == []


def test_an_event_that_was_on_its_way_is_told_again(root: Storage, journal: Journals) -> None:
    """The triggerer dies between the event and the next poll, so it is unknown whether Airflow has the event."""
    writer, store = created(journal("orders")), Store()
    Watcher(root.uri, store).until(lambda: release(writer, 1, out=1))
    release(writer, 2, out=1)

    async def dies_with_it() -> Any:
        return (await anext(Watcher(root.uri, store).trigger.run())).payload

    assert asyncio.run(dies_with_it())["checkpoint"] == 2
    assert checkpoints(Watcher(root.uri, store).until()) == [(1, 2)]


def test_a_job_that_has_not_begun_is_told_from_its_first_release(root: Storage, journal: Journals) -> None:
    def begin() -> None:
        release(created(journal("orders")), 1, out=1)

    assert checkpoints(Watcher(root.uri, Store()).until(begin)) == [(0, 1)]


def test_a_root_that_is_gone_is_no_new_one_until_a_new_job_is_in_it(
    root: Storage, journal: Journals, tmp_path: Path
) -> None:
    writer, store = created(journal("orders")), Store()
    release(writer, 1, out=1)
    place = Path(root.uri.removeprefix("file://"))

    def go() -> None:
        shutil.move(place, tmp_path / "away")

    def come_back() -> None:
        shutil.move(tmp_path / "away", place)

    assert Watcher(root.uri, store).until(go, come_back) == []
    shutil.rmtree(place / "orders")
    release(created(journal("orders"), at=2.0), 1, out=1)
    assert checkpoints(Watcher(root.uri, store).until()) == [(0, 1)]


def test_the_root_of_an_ended_job_may_be_made_anew_while_it_is_watched(root: Storage, journal: Journals) -> None:
    writer = created(journal("orders"))
    for number in range(1, 9):
        release(writer, number, out=1)
    end(writer, "FINISHED")
    place = Path(root.uri.removeprefix("file://"))

    def anew() -> None:
        shutil.rmtree(place / "orders")
        release(created(journal("orders"), at=2.0), 1, out=1)

    assert checkpoints(Watcher(root.uri, Store()).until(anew)) == [(0, 1)]


@pytest.mark.parametrize("found", [None, 7, "7", {}, {"checkpoint": "7", "created": 1.0}, {"other": 1}])
def test_what_cannot_be_how_far_it_has_told_is_begun_anew(root: Storage, journal: Journals, found: Any) -> None:
    writer, store = created(journal("orders")), Store()
    release(writer, 1, out=1)
    store.kept["ckpt_release/orders/"] = found
    assert checkpoints(Watcher(root.uri, store).until(lambda: release(writer, 2, out=1))) == [(1, 2)]
    assert store.kept["ckpt_release/orders/"] == {"created": 1.0, "checkpoint": 2}


def test_several_assets_of_one_trigger_are_told_what_is_released_from_now_on(
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
def test_what_is_wrong_is_logged_and_looked_at_again(
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

    def mended() -> None:
        """Repair the entry in one step, because the trigger may poll meanwhile."""
        beside = place.with_suffix(".new")
        beside.write_bytes(right)
        beside.replace(place)
        release(writer, 2, out=1)

    watcher = Watcher(root.uri, store)
    said: list[str] = []
    watcher.trigger._warn_once = said.append
    assert checkpoints(watcher.until(mended)) == [(1, 2)]
    assert problem in said[-1]


def test_a_store_that_does_not_answer_is_asked_again(root: Storage, journal: Journals) -> None:
    writer, store = created(journal("orders")), Store()
    store.refuses = 3
    assert checkpoints(Watcher(root.uri, store).until(*[lambda: None] * 3, lambda: release(writer, 1, out=1))) == [
        (0, 1)
    ]
    assert store.kept["ckpt_release/orders/"]["checkpoint"] == 1


def test_it_is_stored_without_secrets_and_made_again(root: Storage) -> None:
    path, arguments = CheckpointReleaseTrigger(job_id="orders", sink="out", ckpt_conn_id="lake").serialize()
    module, _, name = path.rpartition(".")
    made = getattr(importlib.import_module(module), name)(**json.loads(json.dumps(arguments)))
    assert (made.job_id, made.sink, made.ckpt_conn_id) == ("orders", "out", "lake")


def test_releases_of_a_job_that_is_deleted_right_behind_its_end_are_told(root: Storage, journal: Journals) -> None:
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


def test_begun_on_a_sink_that_is_ahead_of_the_job_it_begins_with_its_next_release(
    root: Storage, journal: Journals
) -> None:
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
def test_what_no_triggerer_could_do_is_refused_when_the_dag_is_read(given: dict[str, Any]) -> None:
    """A negative interval kept a triggerer busy. A text that is no number ended the watch after the first poll."""
    with pytest.raises(InvalidInputError):
        CheckpointReleaseTrigger(**{"job_id": "orders", **given})


@pytest.mark.parametrize("given", [90, "1m30s", timedelta(seconds=90)])
def test_its_interval_is_a_duration_as_everywhere(given: Any) -> None:
    _, kwargs = CheckpointReleaseTrigger(job_id="orders", poll_interval=given).serialize()
    assert kwargs["poll_interval"] == 90.0
