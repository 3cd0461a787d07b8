"""Which try of a supervisor's a worker is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SupervisedTry:
    """``of``: what the supervisor tries, such as a task of Airflow's in one Dag run; tries of anything else are not
    compared with it. ``number``: greater with each try."""

    of: str
    number: int
