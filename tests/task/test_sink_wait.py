"""Waits of a subtask for the target of a sink that fails for now."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.errors import CkptError, OvertakenError, TerminalError, TransientError
from airflow_provider_ckpt.task.sink_wait import SinkWait


class Target:
    """A target that fails ``times`` times, with a clock that only its waits move."""

    def __init__(self, times: int, timeout: float = 300.0, error: CkptError | None = None) -> None:
        self.now, self.left, self.calls = 0.0, times, 0
        self.error = error or TransientError(message="SQLSTATE 25006, ReadOnlySqlTransaction")
        self.is_over, self.overtaken = False, False
        self.reported: list[float] = []
        self.wait = SinkWait(
            timeout,
            is_over=lambda: self.is_over,
            check_fenced=self.check_fenced,
            report=lambda seconds, error: self.reported.append(round(seconds)),
            clock=lambda: self.now,
            sleep=self.sleep,
        )

    def check_fenced(self) -> None:
        if self.overtaken:
            raise OvertakenError(message="a later driver")

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def act(self) -> str:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self.error
        return "staged"


def test_a_target_that_is_read_only_for_20_s_is_waited_for() -> None:
    target = Target(6)
    assert target.wait.call(target.act) == "staged"
    assert target.calls == 7
    assert 20.0 < target.now < 40.0
    assert target.reported == [0, 1, 7]


def test_a_target_that_fails_for_longer_than_the_timeout_is_given_up() -> None:
    target = Target(10**6, timeout=30.0)
    with pytest.raises(TransientError):
        target.wait.call(target.act)
    assert 30.0 <= target.now < 45.0


def test_an_inner_wait_that_gives_up_ends_the_outer_one() -> None:
    target = Target(10**6, timeout=30.0)
    with pytest.raises(TransientError):
        target.wait.call(lambda: target.wait.call(target.act))
    assert target.now < 45.0


def test_an_error_that_does_not_pass_is_not_tried_again() -> None:
    target = Target(1, error=TerminalError(message="no such column"))
    with pytest.raises(TerminalError):
        target.wait.call(target.act)
    assert (target.calls, target.reported) == (1, [])


def test_without_a_timeout_a_target_is_asked_once() -> None:
    target = Target(1, timeout=0.0)
    with pytest.raises(TransientError):
        target.wait.call(target.act)
    assert (target.calls, target.reported) == (1, [])


def test_r8_an_attempt_that_is_overtaken_while_it_waits_tries_nothing_more() -> None:
    target = Target(1)
    target.overtaken = True
    with pytest.raises(OvertakenError):
        target.wait.call(target.act)
    assert target.calls == 1


def test_a_run_that_is_over_waits_for_no_target() -> None:
    target = Target(10**6)

    def ends(seconds: float) -> None:
        target.now += seconds
        target.is_over = target.now > 5.0

    target.wait._sleep = ends
    with pytest.raises(TransientError):
        target.wait.call(target.act)
    assert target.now < 6.0
