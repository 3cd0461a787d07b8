"""Report of the demo. If one part of the evidence is wrong, the claim about it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.model.job_status import JobStatus
from dags_examples.demo import report
from dags_examples.demo_support.compare import Difference
from dags_examples.demo_support.evidence import CHECKS, Evidence, judge
from tests.demo.evidence import (
    DRIVER,
    INPUT,
    JVM,
    MONTHS,
    RESUMED,
    after_the_kill,
    before_the_kill,
    completed,
    killed,
    sound,
    state,
)


def failed(evidence: Evidence) -> set[str]:
    return {check.__name__ for check in CHECKS if not check(evidence).holds}


def without(events: list[ev.Event], kind: type) -> list[ev.Event]:
    return [event for event in events if not isinstance(event, kind)]


def task(**changed: Any) -> dict[str, Any]:
    return {"state": "success", "tasks": {"clean": {"state": "success", "try_number": 2, **changed}}}


def seen(checkpoint: int | None, counts: dict[str, int] | None = None) -> dict[str, Any]:
    report = sound().report
    tasks = {**report["tasks"], "released": {"returned": checkpoint and {"checkpoint": checkpoint}}}
    if counts is not None:
        tasks["count_by_month"] = {"returned": counts}
    return {**report, "tasks": tasks}


WRONG: list[tuple[str, Evidence]] = [
    ("both_sources_ran", sound(months={1: {1: 10}, 2: {2: 10}, 3: {12: 6}, 5: {12: 4}})),
    ("checkpoints_after_history_ended", sound(months={**MONTHS, 3: {}})),
    ("driver_was_killed_in_the_middle", sound(kill=killed(released=10))),
    ("driver_was_killed_in_the_middle", sound(kill=killed(survivors=(DRIVER,)))),
    ("driver_was_killed_in_the_middle", sound(kill=killed(processes={JVM: "java"}))),
    ("driver_was_killed_in_the_middle", sound(kill=killed(processes={DRIVER: "python"}))),
    (
        "driver_was_killed_in_the_middle",
        sound(kill=killed(state=state(before_the_kill(), [ev.StatusChanged(JobStatus.FAILED, 1.0)]))),
    ),
    ("airflow_retried", sound(airflow=task(try_number=1))),
    ("airflow_retried", sound(airflow=task(try_number=3))),
    ("airflow_retried", sound(airflow={**task(), "state": "failed"})),
    ("airflow_retried", sound(airflow={})),
    ("retry_resumed", sound(log="")),
    ("retry_resumed", sound(log=RESUMED.replace("checkpoint 3", "checkpoint 2"))),
    ("retry_resumed", sound(log=RESUMED.replace("history", "live"))),
    ("retry_resumed", sound(log=RESUMED.replace("epoch 2", "epoch 1"))),
    (
        "history_was_not_read_again",
        sound(ended=state(before_the_kill(), after_the_kill(reads_history=True))),
    ),
    ("history_was_not_read_again", sound(months={**MONTHS, 5: {1: 1, 12: 4}})),
    ("final_checkpoint", sound(drain="another request")),
    (
        "final_checkpoint",
        sound(ended=state(before_the_kill(), [*after_the_kill(), ev.StatusChanged(JobStatus.STOPPED, 3.0)])),
    ),
    (
        "final_checkpoint",
        sound(ended=state(before_the_kill(), without(after_the_kill(), ev.SubtaskFinished))),
    ),
    (
        "final_checkpoint",
        sound(ended=state(before_the_kill(), without(after_the_kill(), ev.CheckpointReleased))),
    ),
    ("flights_are_equal", sound(flights=Difference(30, 29, 1, 0, ("missing (1,)",)))),
    ("flights_are_equal", sound(flights=Difference(30, 31, 0, 1, ("too many (1,)",)))),
    ("flights_are_equal", sound(flights=Difference(0, 0, 0, 0, ()))),
    ("flights_are_equal", sound(actual_months={**INPUT, 1: 9, 2: 11})),
    ("flights_are_equal", sound(unlisted=("month=1/a.parquet",))),
    ("delays_are_equal", sound(delays=Difference(6, 6, 1, 1, ()))),
    ("second_dag_waited", sound(report=seen(5))),
    ("second_dag_waited", sound(report=seen(None))),
    ("second_dag_waited", sound(report=seen(6, {"month=1": 10}))),
    ("second_dag_waited", sound(report_log="")),
    ("second_dag_waited", sound(report={})),
    ("nothing_is_left", sound(left_over=("java 1",))),
]


def test_every_claim_holds_for_a_sound_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(sound()) == set()
    assert report(sound())
    assert f"{len(CHECKS)} of {len(CHECKS)} claims hold" in capsys.readouterr().out


@pytest.mark.parametrize(("check", "evidence"), WRONG, ids=[f"{i}-{name}" for i, (name, _) in enumerate(WRONG)])
def test_wrong_evidence_fails_its_claim_and_the_report(
    check: str, evidence: Evidence, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failed(evidence) == {check}
    assert not report(evidence)
    assert "FAILED" in capsys.readouterr().out


def test_every_claim_can_fail() -> None:
    covered = {name for name, _ in WRONG} | {"checkpoints_before_history_ended"}
    assert covered == {check.__name__ for check in CHECKS}


def test_checkpoints_before_the_end_of_history_are_required() -> None:
    late = [
        event
        for event in before_the_kill()
        if not (isinstance(event, ev.CheckpointCompleted) and event.operators["history"] == "running")
    ]
    evidence = sound(kill=killed(state=state(late)), ended=state(late, after_the_kill()))
    assert failed(evidence) == {"both_sources_ran", "checkpoints_before_history_ended"}


def test_a_savepoint_or_final_checkpoint_is_no_ordinary_one() -> None:
    final = completed(3, 3, history="finished", kind="final", reads_history=False)
    events = [event for event in before_the_kill() if getattr(event, "checkpoint", 0) != 3]
    evidence = sound(kill=killed(state=state([*events, *final])))
    assert "checkpoints_after_history_ended" in failed(evidence)


def test_numbers_in_the_report_come_from_the_evidence() -> None:
    claims = "\n".join(check.claim for check in judge(replace(sound(), flights=Difference(7, 5, 2, 0, ()))))
    assert "7 expected, 5 released, 2 missing, 0 too many" in claims
    assert "6 of 10 live flights" in claims
    assert "checkpoint 1 released 10 flights of history and 2 live ones" in claims
