"""Garbage collection while drivers of a job die, between their runs and during them: no row is lost or repeated."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from airflow_provider_ckpt.client.garbage_collection import GarbageReport, collect_garbage
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.jobmaster.retention import garbage_search
from tests.spark.faults import Fault, FaultyStorage
from tests.spark.harness import World, check_finished, put_history_and_live
from tests.spark.jobs import depths

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_driver_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count no driver as alive.

    This process is the driver of every test, so its jobs would be skipped.
    """
    monkeypatch.setattr(garbage_search, "is_alive", lambda worker: False)


def run_into(world: World, fault: Fault, rows: int) -> str:
    try:
        return world.run(depths(world), world.drain_at(rows), FaultyStorage(world.storage, fault)).status
    except TransientError as error:
        return type(error).__name__


def finish(world: World, rows: int) -> None:
    run = world.run(depths(world), world.drain_at(rows))
    assert (run.status, run.cause) == ("FINISHED", None)


@contextmanager
def collected(world: World) -> Iterator[list[GarbageReport]]:
    """Collect garbage all the time in a thread, also while a driver runs."""
    done, reports = threading.Event(), list[GarbageReport]()
    world.storage.create("ckpt-root.json", b'{"format": "airflow-provider-ckpt/root", "version": 1}\n')

    def collect() -> None:
        while not done.is_set():
            reports.append(collect_garbage(world.root, delete=True))

    thread = threading.Thread(target=collect, name="gc")
    thread.start()
    try:
        yield reports
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("at", [33, 64])
def test_each_row_is_released_once_with_collections_after_crashes(world: World, at: int) -> None:
    expected = put_history_and_live(world)
    for when in (at, at // 2, at * 2 // 3):
        run_into(world, Fault(when, "after"), len(expected))
        report = collect_garbage(world.root, delete=True)
        assert report.problems == {}
        print(
            sorted({item.reason for job in report.jobs for item in job.garbage})
        )  # the reasons depend on the verb of the crash
    finish(world, len(expected))
    check_finished(world, expected)


@pytest.mark.parametrize("at", [47, 90])
def test_each_row_is_released_once_with_collections_during_runs(world: World, at: int) -> None:
    """Garbage collection is correct at any moment.

    It skips a living driver only because it would disturb that driver.
    """
    expected = put_history_and_live(world)
    with collected(world) as reports:
        for when in (at, at // 2):
            run_into(world, Fault(when, "before"), len(expected))
        finish(world, len(expected))
    check_finished(world, expected)
    assert len(reports) > 10
    print({problem for report in reports for problem in report.problems.values()})
    assert collect_garbage(world.root).files == 0


def test_data_of_a_driver_without_clean_up_is_collected(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = put_history_and_live(world)
    monkeypatch.setattr("airflow_provider_ckpt.spark.run_attempt.clean_up", lambda *given: None)
    finish(world, len(expected))
    left = {item.path.rpartition("/")[2] for item in collect_garbage(world.root).jobs[0].garbage}
    assert left >= {"partition", "spark"}
    assert collect_garbage(world.root, delete=True).files > 0
    assert collect_garbage(world.root).files == 0
    finish(world, len(expected))
    check_finished(world, expected)
