"""Whether a task runs again because somebody cleared it, or because Airflow retries it."""

from __future__ import annotations

from typing import Protocol

from airflow_provider_ckpt.operators.pointer import Pointer


class Try(Protocol):
    """What is used of a task instance."""

    @property
    def try_number(self) -> int: ...
    @property
    def max_tries(self) -> int: ...


def was_cleared(before: Pointer, ti: Try, retries: int, clear_number: int | None) -> bool:
    """``before``: what an earlier try left. ``retries``: of the task, as the Dag says today. ``clear_number``: of the
    Dag run, which Airflow raises when any of its tasks is cleared.

    Airflow sets ``max_tries`` in two places only: when the task instance is made, to ``retries``, and when it is
    cleared, to ``try_number + retries``. An edit of ``retries`` alone does not reach it. So another number means a
    clear, and the same number does not exclude one: somebody lowered ``retries``, then cleared. Such a clear shows in
    the Dag run's number, and in ``max_tries`` being just what a clear of today would have made it. A try beyond
    ``max_tries`` is no retry either: a clear of a running task leaves the number, and always grants one more.
    """
    if ti.max_tries != before.max_tries or ti.try_number > ti.max_tries + 1:
        return True
    cleared_something = None not in (clear_number, before.clear_number) and clear_number != before.clear_number
    return cleared_something and ti.max_tries == ti.try_number - 1 + retries
