"""Time limit for restarts of a failing JobMaster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider_ckpt.triggers.master_verdict import MasterRestartPolicy, MasterVerdict

FAILED = MasterVerdict("FAILED", "failed", "the bucket is away")


@dataclass
class State:
    last_completed: int = 0
    deployment: int = 1


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def rounds(failing: MasterRestartPolicy, clock: Clock, states: list[Any]) -> list[bool]:
    decisions = []
    for state in states:
        decisions.append(failing.may_restart(FAILED, state))
        clock.now += 10.0
    return decisions


def test_restarts_end_after_the_limit_without_a_checkpoint() -> None:
    clock = Clock()
    assert rounds(MasterRestartPolicy(35.0, clock), clock, [State(), None, None, State(), State()]) == [True] * 4 + [
        False
    ]


def test_each_completed_checkpoint_resets_the_time() -> None:
    clock = Clock()
    states = [State(number // 3) for number in range(30)]
    assert all(rounds(MasterRestartPolicy(35.0, clock), clock, states))


@pytest.mark.parametrize(
    "verdict",
    [
        MasterVerdict("TERMINAL", "failed", "no such column"),
        MasterVerdict("FENCED", "fenced", "epoch 9"),
        MasterVerdict("REFUSED", "refused", "not planned"),
        MasterVerdict("FINISHED", "finished", "all sources have ended"),
        MasterVerdict("FAILED", "failed", "RESTARTING", abandoned="nobody runs rows/0"),
    ],
)
def test_the_end_of_a_run_allows_no_restart(verdict: MasterVerdict) -> None:
    assert not MasterRestartPolicy().may_restart(verdict, State())  # type: ignore[arg-type]


def test_a_run_that_ended_restarting_is_left_to_the_next_try() -> None:
    assert not MasterRestartPolicy().may_restart(FAILED, State(deployment=0))  # type: ignore[arg-type]
