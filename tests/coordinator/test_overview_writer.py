"""The writer of overviews: bounded in number, and never in the way of the job."""

from __future__ import annotations

import functools
import threading
from pathlib import Path

import pytest

from airflow_provider_ckpt.jobmaster import overview_writer
from airflow_provider_ckpt.jobmaster.overview_writer import OverviewWriter
from airflow_provider_ckpt.status.job_overview import JobOverview, read_overview
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.spark.faults import HookedStorage


def overview(epoch: int) -> JobOverview:
    return JobOverview("orders", 1.0, "RUNNING", epoch)


def epoch_in(storage: Storage) -> int | None:
    stored = read_overview(storage, "orders")
    return None if stored is None else stored.epoch


def test_overviews_are_written_at_most_once_in_an_interval(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    writer, made = OverviewWriter(storage, 5.0), list[int]()

    def make() -> JobOverview:
        made.append(len(made) + 1)
        return overview(made[-1])

    for now in (100.0, 101.0, 104.9):
        writer.write_if_due(now, make)
        writer._threads.join(10)
    assert made == [1]
    writer.write_if_due(105.0, make)
    writer.close(make)
    assert (made, epoch_in(storage)) == ([1, 2, 3], 3)


def test_an_unchanged_overview_is_written_once_a_minute(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    writer = OverviewWriter(storage, 5.0)

    def write_at(now: float, epoch: int = 1) -> float | None:
        writer.write_if_due(now, lambda: JobOverview("orders", now, "RUNNING", epoch, measured_at=now))
        writer._threads.join(10)
        stored = read_overview(storage, "orders")
        return None if stored is None else stored.at

    assert [write_at(now) for now in (100.0, 105.0, 159.0, 165.0)] == [100.0, 100.0, 100.0, 165.0]
    assert write_at(170.0, epoch=2) == 170.0


def test_an_overview_that_cannot_be_made_does_not_fail_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = OverviewWriter(open_storage(tmp_path), 1.0)

    def fail() -> JobOverview:
        raise ValueError("no such vertex")

    writer.write_if_due(100.0, fail)
    writer.close(fail)
    assert "ValueError: no such vertex" in caplog.text
    writer.close(lambda: overview(3))
    assert epoch_in(open_storage(tmp_path)) == 3


def test_an_interval_of_zero_writes_nothing(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    writer = OverviewWriter(storage, 0.0)
    writer.write_if_due(100.0, lambda: overview(1))
    writer.close(lambda: overview(2))
    assert epoch_in(storage) is None


def test_a_storage_that_hangs_delays_neither_the_job_nor_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview_writer, "LAST_WRITE", 0.05)
    hangs = threading.Event()
    storage = HookedStorage(open_storage(tmp_path), lambda verb, path: void(hangs.wait(30)))
    writer = OverviewWriter(storage, 1.0)
    writer.write_if_due(100.0, lambda: overview(1))
    writer.write_if_due(102.0, lambda: pytest.fail("a second write begins while the first one hangs"))
    writer.close(lambda: pytest.fail("the last write begins while the first one hangs"))
    hangs.set()


def test_a_storage_that_fails_is_logged_once_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fails = [True, True]

    def hook(verb: str, path: str) -> None:
        if fails:
            fails.pop()
            raise StorageTransientError(verb=verb, uri=path, reason="503")

    storage = HookedStorage(open_storage(tmp_path), hook)
    writer = OverviewWriter(storage, 1.0)
    for number in range(3):
        writer.write_if_due(100.0 + number, functools.partial(overview, number))
        writer._threads.join(10)
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the job's overview was not written, `ckpt show` may show old numbers"
    ]
    assert epoch_in(open_storage(tmp_path)) == 2


def void(value: object) -> None:
    """Ignore a value, in a function that must return None."""
