"""A process whose death a test chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ckpt.testing.crash import SimulatedCrash, When


@dataclass
class Process:
    """Process that dies at a given change. A release makes two changes: it takes the staged rows, and it commits.

    ``loses``: the reply of its commit is lost, if its sink reads this.
    """

    at: int = 99
    when: When = "before"
    loses: bool = False
    done: int = 0

    def step(self, act: Callable[[], None]) -> None:
        self.done += 1
        if self.done > self.at or (self.done == self.at and self.when == "before"):
            raise SimulatedCrash
        act()
        if self.done == self.at:
            raise SimulatedCrash
