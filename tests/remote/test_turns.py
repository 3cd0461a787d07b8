"""Of many JobMasters few work at once, and none waits for one that hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from airflow_provider_ckpt.remote.turns import Turns
from tests.support.waiting import wait_until


class Work:
    """A piece of work in a thread of its own, until :meth:`end`."""

    def __init__(self, turns: Turns) -> None:
        self.begun, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(turns,), daemon=True)
        self._thread.start()

    def _run(self, turns: Turns) -> None:
        with turns:
            self.begun.set()
            self._over.wait(60)

    def end(self) -> None:
        self._over.set()
        self._thread.join(60)


@pytest.fixture
def working() -> Callable[[Turns], Work]:
    return Work


def test_no_more_than_so_many_work_at_once(working: Callable[[Turns], Work]) -> None:
    turns = Turns(2, patience=60.0)
    first, second = working(turns), working(turns)
    wait_until(lambda: first.begun.is_set() and second.begun.is_set(), "two that work")
    third = working(turns)
    assert not third.begun.wait(0.1)
    first.end()
    wait_until(third.begun.is_set, "the third one's turn")
    second.end()
    third.end()


def test_whoever_has_waited_long_enough_works_beside_one_that_hangs(working: Callable[[Turns], Work]) -> None:
    turns = Turns(1, patience=0.05)
    hangs = working(turns)
    wait_until(hangs.begun.is_set, "the one that hangs")
    other = working(turns)
    wait_until(other.begun.is_set, "the other one", seconds=10)
    other.end()
    assert not turns._free.acquire(blocking=False), "its turn was not its own to give back"
    hangs.end()
    assert turns._free.acquire(blocking=False)


def test_a_turn_is_given_back_by_who_fails() -> None:
    turns = Turns(1, patience=0.05)
    for _ in range(3):
        with pytest.raises(ValueError, match="on purpose"), turns:
            raise ValueError("on purpose")
    assert turns._free.acquire(blocking=False)
