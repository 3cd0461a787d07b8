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


def test_a_wait_outlasts_a_target_that_fails_for_20_s() -> None:
    target = Target(6)
    assert target.wait.call(target.act) == "staged"
    assert target.calls == 7
    assert 20.0 < target.now < 40.0
    assert target.reported == [0, 1, 7]


def test_a_wait_ends_after_the_timeout() -> None:
    target = Target(10**6, timeout=30.0)
    with pytest.raises(TransientError):
        target.wait.call(target.act)
    assert 30.0 <= target.now < 45.0


def test_a_timeout_of_an_inner_wait_ends_the_outer_one() -> None:
    target = Target(10**6, timeout=30.0)
    with pytest.raises(TransientError):
        target.wait.call(lambda: target.wait.call(target.act))
    assert target.now < 45.0


def test_a_permanent_error_is_not_retried() -> None:
    target = Target(1, error=TerminalError(message="no such column"))
    with pytest.raises(TerminalError):
        target.wait.call(target.act)
    assert (target.calls, target.reported) == (1, [])


def test_without_a_timeout_a_target_is_called_once() -> None:
    target = Target(1, timeout=0.0)
    with pytest.raises(TransientError):
        target.wait.call(target.act)
    assert (target.calls, target.reported) == (1, [])


def test_r8_an_overtaken_attempt_ends_its_wait() -> None:
    target = Target(1)
    target.overtaken = True
    with pytest.raises(OvertakenError):
        target.wait.call(target.act)
    assert target.calls == 1


def test_the_end_of_the_run_ends_the_wait() -> None:
    target = Target(10**6)

    def ends(seconds: float) -> None:
        target.now += seconds
        target.is_over = target.now > 5.0

    target.wait._sleep = ends
    with pytest.raises(TransientError):
        target.wait.call(target.act)
    assert target.now < 6.0
