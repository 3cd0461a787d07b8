"""Vacancies: subtasks without a worker, and the times at which the JobMaster reports them."""

from __future__ import annotations

from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.remote.unassigned_subtasks import (
    AGAIN_AFTER,
    FIRST_AFTER,
    UnassignedSubtasks,
    vacancy_message,
)

A, B = map(SubtaskId, ("a/0", "b/0"))
FIRST = AttemptId(1, 1, "x")
SECOND = FIRST.next("y")


class ReportedVacancies(list[list[SubtaskId]]):
    def __init__(self) -> None:
        super().__init__()
        self.vacancies = UnassignedSubtasks([B, A], self.append, 0.0)

    def at(self, now: float) -> list[list[SubtaskId]]:
        """Return the vacancies that are reported at ``now``."""
        self.clear()
        self.vacancies.check(now)
        return list(self)


def test_a_vacancy_is_reported_once_and_rarely_repeated() -> None:
    reported = ReportedVacancies()
    assert reported.at(FIRST_AFTER - 1) == []
    assert reported.at(FIRST_AFTER) == [[A, B]]
    assert reported.at(FIRST_AFTER + 1) == []
    reported.vacancies.assign(A, FIRST)
    assert reported.at(FIRST_AFTER + AGAIN_AFTER) == [[B]]
    reported.vacancies.assign(B, FIRST)
    assert reported.at(FIRST_AFTER + 2 * AGAIN_AFTER) == []


def test_a_new_vacancy_is_reported_with_the_earlier_ones() -> None:
    reported = ReportedVacancies()
    reported.vacancies.assign(A, FIRST)
    assert reported.at(FIRST_AFTER) == [[B]]
    reported.vacancies.unassign(A, FIRST, 20.0)
    assert reported.at(20.0 + FIRST_AFTER - 1) == []
    assert reported.at(20.0 + FIRST_AFTER) == [[A, B]]


def test_a_worker_that_leaves_after_its_successor_leaves_no_vacancy() -> None:
    reported = ReportedVacancies()
    for subtask in (A, B):
        reported.vacancies.assign(subtask, FIRST)
    reported.vacancies.assign(A, SECOND)
    reported.vacancies.unassign(A, FIRST, 1.0)
    reported.vacancies.assign(A, FIRST)  # it has woken up, and repeats its report
    reported.vacancies.unassign(A, FIRST, 2.0)
    assert reported.at(1000.0) == []
    reported.vacancies.unassign(A, SECOND, 1000.0)
    assert reported.at(1000.0 + FIRST_AFTER) == [[A]]


def test_a_vacancy_message_names_the_subtasks_and_the_timeout() -> None:
    message = vacancy_message([A, B], 600.0, is_batch=False, worker="ckpt worker j.py:job --root /r")
    assert message.startswith(
        "no worker runs a/0, b/0 (start its task in Airflow, or `ckpt worker j.py:job --root /r`)"
    )
    assert message.endswith("the run ends if none has begun after 600 s, the checkpoint timeout")
    in_batch = vacancy_message([A], 600.0, is_batch=True, worker="ckpt worker")
    assert "after 600 s in which no other subtask runs, the checkpoint" in in_batch
