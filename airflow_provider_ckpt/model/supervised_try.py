"""Tries in which a supervisor, such as Airflow, starts the workers of a subtask."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SupervisedTry:
    """One try of a supervisor. Later tries have a higher ``number``.

    ``of`` is the supervisor's unit of work, such as an Airflow task in one Dag run. Numbers of
    different units are not compared.
    """

    of: str
    number: int
