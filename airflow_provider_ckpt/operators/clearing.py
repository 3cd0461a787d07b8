"""The distinction between a task that a user cleared and a task that Airflow retries."""

from __future__ import annotations

from typing import Protocol

from airflow_provider_ckpt.operators.pointer import Pointer


class Try(Protocol):
    @property
    def try_number(self) -> int: ...
    @property
    def max_tries(self) -> int: ...


def was_cleared(before: Pointer, ti: Try, retries: int, clear_number: int | None) -> bool:
    """Return True if a user has cleared the task since an earlier try.

    Airflow sets ``max_tries`` in two places only. A new task instance gets ``retries``, and a cleared task instance
    gets ``try_number + retries``. So a changed ``max_tries`` means a clear.

    A user may have lowered ``retries`` before the clear, so that ``max_tries`` stays the same. Such a clear has changed
    the Dag run's clear number, and ``max_tries`` has the value that a clear sets with the current ``retries``.

    A clear of a running task leaves ``max_tries`` unchanged but grants one more try. So a try number above ``max_tries
    + 1`` means a clear, too.

    ``before`` is the pointer that an earlier try wrote. ``clear_number`` rises when a user clears any task of the Dag
    run.
    """
    if ti.max_tries != before.max_tries or ti.try_number > ti.max_tries + 1:
        return True
    is_counted = None not in (clear_number, before.clear_number)  # a user can edit the pointer in the UI
    return is_counted and clear_number != before.clear_number and ti.max_tries == ti.try_number - 1 + retries
