"""Tries of a supervisor that starts a subtask's workers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SupervisedTry:
    """One try of a supervisor, with a ``number`` that rises with each try.

    ``of`` is the supervisor's unit of work, such as an Airflow task in one Dag run. Only tries with the same
    ``of`` are compared.
    """

    of: str
    number: int
