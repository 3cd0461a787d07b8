"""When the micro-batch that runs is going to end: told to a JobMaster of the same process."""

from __future__ import annotations

from itertools import groupby

import pytest

from airflow_provider_ckpt.coordinator.batches_under_way import BatchesUnderWay
from airflow_provider_ckpt.coordinator.reports import BatchUnderWay, Report
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.task_id import TaskId
from airflow_provider_ckpt.spark.task import batch_pace
from airflow_provider_ckpt.spark.task.batch_pace import BatchPace
from tests.coordinator.harness import V0, A
from tests.spark.harness import World
from tests.spark.jobs import mixed

TASK = TaskId(1, V0, A)


class Watch:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(batch_pace, "time", watch)
    return watch


def told(pace_of: list[Report]) -> list[float | None]:
    assert all(isinstance(one, BatchUnderWay) and one.subtask == V0 for one in pace_of)
    return [one.seconds for one in pace_of if isinstance(one, BatchUnderWay)]


def test_a_batch_is_going_to_take_as_long_as_the_one_before(watch: Watch) -> None:
    said: list[Report] = []
    pace = BatchPace(TASK, said.append)
    for took in (4.0, 0.5, 0.25):
        pace.begins()
        watch.now += took
        pace.published()
        watch.now += 10.0
    assert told(said) == [None, 4.0, None, 0.5, None]


def test_the_batch_of_an_attempt_before_has_no_time(watch: Watch) -> None:
    said: list[Report] = []
    pace = BatchPace(TASK, said.append)
    pace.published()
    pace.begins()
    assert said == []


def test_a_batch_that_failed_is_no_measure(watch: Watch) -> None:
    said: list[Report] = []
    pace = BatchPace(TASK, said.append)
    pace.begins()
    watch.now += 60.0
    pace.begins()  # the query was started anew
    watch.now += 0.5
    pace.published()
    pace.begins()
    assert told(said) == [None, 0.5]


def test_nobody_is_told_where_nobody_would_wait(watch: Watch) -> None:
    pace = BatchPace(TASK, None)
    for _ in range(2):
        pace.begins()
        pace.published()


def test_the_coordinator_of_a_run_hears_of_each_batch_of_those_that_it_triggers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[SubtaskId, float | None]] = []
    note = BatchesUnderWay.note

    def listen(self: BatchesUnderWay, subtask: SubtaskId, seconds: float | None, now: float) -> None:
        heard.append((subtask, seconds))
        note(self, subtask, seconds, now)

    monkeypatch.setattr(BatchesUnderWay, "note", listen)
    expected = world.put_ids("history", 4, 5)
    run = world.run(mixed(world, chain=False), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    of_history = [seconds for subtask, seconds in heard if subtask == "history/0"]
    assert sum(1 for seconds in of_history if seconds is None) == 4
    assert [begun for begun, _ in groupby(of_history, lambda one: one is not None)] == [False, *[True, False] * 3]
    assert all(0 < seconds < 60 for seconds in of_history if seconds is not None)
    assert {subtask for subtask, _ in heard} == {"history/0"}
