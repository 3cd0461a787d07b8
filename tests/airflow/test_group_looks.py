"""Triggers of the same job in one triggerer share their polls."""

from __future__ import annotations

import asyncio
import threading

import pytest

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.triggers.finished_subtask import GroupPolls, Reading
from airflow_provider_ckpt.triggers.group_task_states import ASK_EVERY


class Polls:
    """Polls and their clock. ``now``: its time. ``held``: polls wait for it."""

    def __init__(self) -> None:
        self.now, self.begun, self.asked = 100.0, 0, 0
        self.says: str | None = "deferred"
        self.fails: Exception | None = None
        self.held = threading.Event()
        self.held.set()
        self.shared = GroupPolls(self._look, self._ask, clock=lambda: self.now)

    def _look(self) -> JobState:
        self.begun += 1
        number = self.begun
        assert self.held.wait(30)
        if self.fails is not None:
            raise self.fails
        return JobState("orders", epoch=number)

    def _ask(self) -> str | None:
        self.asked += 1
        return self.says


async def readings(polls: Polls, count: int, age: float = 5.0) -> list[Reading]:
    return list(await asyncio.gather(*(polls.shared.reading(age) for _ in range(count))))


def test_300_concurrent_polls_read_the_journal_once() -> None:
    polls = Polls()
    polled = asyncio.run(readings(polls, 300))
    assert polls.begun == 1
    assert {reading.state.epoch for reading in polled} == {1}


def test_the_journal_is_read_again_when_the_last_poll_is_too_old() -> None:
    polls = Polls()

    async def go() -> list[int]:
        epochs = []
        for seconds, age in ((0, 5.0), (4, 5.0), (0, 3.0), (4.9, 5.0), (0.1, 5.0)):
            polls.now += seconds
            epochs.append((await polls.shared.reading(age)).state.epoch)
        return epochs

    assert asyncio.run(go()) == [1, 1, 2, 2, 3]


def test_the_task_state_is_polled_once_a_minute_for_all_triggers() -> None:
    polls = Polls()

    async def go() -> list[tuple[str | None, int]]:
        answers = []
        for seconds, says in ((0, "deferred"), (10, "failed"), (ASK_EVERY - 10, "failed"), (ASK_EVERY, None)):
            polls.now, polls.says = polls.now + seconds, says
            reading = await polls.shared.reading(5.0)
            answers.append((reading.coordinate, reading.answer))
        return answers

    assert asyncio.run(go()) == [("deferred", 1), ("deferred", 1), ("failed", 2), ("failed", 2)]
    assert polls.asked == 3


def test_a_failed_poll_fails_for_all_triggers_and_is_not_repeated_sooner() -> None:
    polls = Polls()
    polls.fails = StorageTransientError(verb="read", uri="s3", reason="reset")

    async def go() -> int:
        tries = await asyncio.gather(*(polls.shared.reading(5.0) for _ in range(50)), return_exceptions=True)
        assert {type(error) for error in tries} == {StorageTransientError}
        with pytest.raises(StorageTransientError):
            await polls.shared.reading(5.0)
        assert polls.begun == 1
        polls.fails, polls.now = None, polls.now + 5.0
        return (await polls.shared.reading(5.0)).state.epoch

    assert asyncio.run(go()) == 2


def test_cancelling_a_trigger_does_not_cancel_a_shared_poll() -> None:
    polls = Polls()
    polls.held.clear()

    async def go() -> Reading:
        first = asyncio.ensure_future(polls.shared.reading(5.0))
        second = asyncio.ensure_future(polls.shared.reading(5.0))
        while not polls.begun:
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        polls.held.set()
        return await second

    assert asyncio.run(go()).state.epoch == 1
    assert polls.begun == 1
