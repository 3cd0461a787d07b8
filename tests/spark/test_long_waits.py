"""Waits for files that are still being written (``unfinished_files="wait"``)."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.protocol.effects import Notice
from airflow_provider_ckpt.coordinator.protocol.reports import FileAwaited
from airflow_provider_ckpt.model.file_status import FileStatus
from airflow_provider_ckpt.spark.query.sources import file_polls
from airflow_provider_ckpt.spark.query.sources.file_polls import LONGEST_WAIT, await_settled
from airflow_provider_ckpt.spark.task.batch_files import refuse_unsettled
from tests.coordinator.harness import Harness, graph, only, vertex

BEGAN = 1_800_000_000.0


class Clock:
    """A stand-in for the module ``time``. A pause takes no time."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return BEGAN + self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(file_polls, "time", clock)
    return clock


def growing_file(clock: Clock, until: float, path: str = "file:/in/a") -> FileStatus:
    """Return a file that grows until the time ``until``."""
    last = min(clock.now, until)
    return FileStatus(path, int(last), int((BEGAN + last) * 1000))


def test_a_long_wait_names_the_file_that_changed_last(clock: Clock) -> None:
    reports: list[tuple[str, float]] = []
    look = lambda: [growing_file(clock, 50, "file:/in/a"), growing_file(clock, 1, "file:/in/b")]  # noqa: E731
    await_settled(look, report=lambda file, seconds: reports.append((file.path, seconds)))
    assert reports == [("file:/in/a", 15), ("file:/in/a", 30)]
    assert clock.now == 60


def test_a_usual_wait_is_not_reported(clock: Clock) -> None:
    reports: list[Any] = []
    await_settled(lambda: [growing_file(clock, 0)], report=lambda *report: reports.append(report))
    assert (reports, clock.now) == ([], 10)


def test_a_repeated_batch_waits_only_for_the_remaining_time(clock: Clock) -> None:
    """The bug: a file that never ended held up its batch for ever, because each repeat waited for ten minutes again."""
    await_settled(lambda: [growing_file(clock, 10_000)], waited=LONGEST_WAIT - 5)
    assert clock.now == 5
    young = [FileStatus("file:/in/a", 1, 2**62)]
    refuse_unsettled(None, "rows", young, lambda: False, waited=LONGEST_WAIT)  # type: ignore[arg-type]


def test_the_notice_of_a_long_wait_names_the_file() -> None:
    h = Harness(graph(vertex("v", sources="live", sinks="sink")))
    h.running()
    h.handle(FileAwaited(**h.world("v/0"), uid="live", file="/in/a", seconds=15.4))
    warnings = [notice.message for notice in only(Notice, h.effects) if notice.is_warning]
    expected = "source live: has waited 15 s for /in/a, which is still being written"
    assert [message.partition(". ")[0] for message in warnings] == [expected]
