"""Turns of many JobMasters: few work at once, and a hanging JobMaster blocks no other."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from airflow_provider_ckpt.remote.fair_semaphore import FairSemaphore
from tests.remote.cluster import FakeClock
from tests.support.waiting import wait_until


class Work:
    """A piece of work in a thread of its own, until :meth:`end`."""

    def __init__(self, turns: FairSemaphore) -> None:
        self.begun, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(turns,), daemon=True)
        self._thread.start()

    def _run(self, turns: FairSemaphore) -> None:
        with turns:
            self.begun.set()
            self._over.wait(60)

    def end(self) -> None:
        self._over.set()
        self._thread.join(60)


@pytest.fixture
def working() -> Callable[[FairSemaphore], Work]:
    return Work


def test_the_semaphore_limits_concurrent_turns(working: Callable[[FairSemaphore], Work]) -> None:
    turns = FairSemaphore(2, max_turn=60.0)
    first, second = working(turns), working(turns)
    wait_until(lambda: first.begun.is_set() and second.begun.is_set(), "two that work")
    third = working(turns)
    assert not third.begun.wait(0.1)
    first.end()
    wait_until(third.begun.is_set, "the third one's turn")
    second.end()
    third.end()


def test_a_hanging_turn_does_not_block_the_next(working: Callable[[FairSemaphore], Work]) -> None:
    turns = FairSemaphore(1, max_turn=0.05)
    hangs = working(turns)
    wait_until(hangs.begun.is_set, "the one that hangs")
    other = working(turns)
    wait_until(other.begun.is_set, "the other one", seconds=10)
    other.end()
    hangs.end()
    with turns:
        pass


def test_waiting_longer_than_a_turn_gives_no_priority(
    working: Callable[[FairSemaphore], Work],
) -> None:
    """No work hangs and each turn is short, but many JobMasters wait, as when a triggerer starts."""
    clock = FakeClock()
    turns = FairSemaphore(1, max_turn=1.0, clock=clock)
    first = working(turns)
    wait_until(first.begun.is_set, "the first one")
    second, third = working(turns), working(turns)
    clock.now += 0.9
    first.end()
    wait_until(lambda: second.begun.is_set() or third.begun.is_set(), "the next one")
    now, later = (second, third) if second.begun.is_set() else (third, second)
    clock.now += 0.9  # the last one has waited for 1.8 s, and the current one has worked for 0.9 s
    assert not later.begun.wait(0.3)
    clock.now += 0.2
    wait_until(later.begun.is_set, "the last one, beside one that hangs", seconds=10)
    now.end()
    later.end()


def test_turns_are_taken_in_the_order_of_arrival(working: Callable[[FairSemaphore], Work]) -> None:
    turns = FairSemaphore(1, max_turn=60.0)
    first = working(turns)
    wait_until(first.begun.is_set, "the first one")
    others = []
    for number in range(3):
        others.append(working(turns))
        wait_until(lambda number=number: len(turns._waiting) == number + 1, "its place in the line")  # type: ignore[misc]
    first.end()
    for number, work in enumerate(others):
        wait_until(work.begun.is_set, "its turn")
        assert not any(later.begun.is_set() for later in others[number + 1 :])
        work.end()


def test_a_failed_turn_is_released() -> None:
    turns = FairSemaphore(1, max_turn=60.0)
    for _ in range(3):
        with pytest.raises(ValueError, match="on purpose"), turns:
            raise ValueError("on purpose")
    assert not turns._working
