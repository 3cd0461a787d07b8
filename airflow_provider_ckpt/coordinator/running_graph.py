"""The graph that a job runs: it may change while the job runs, and whoever goes by it asks for it each time."""

from __future__ import annotations

from airflow_provider_ckpt.model.graph import JobGraph


class RunningGraph:
    """``number``: of the plan; 0 as the epoch began, one more with each change. What of the journal's graph has not
    begun yet is not in here."""

    def __init__(self, graph: JobGraph) -> None:
        self.now = graph
        self.number = 0

    def change(self, number: int, graph: JobGraph) -> None:
        """The change is in the journal, and those that it affects have stood still for it (R21)."""
        self.number, self.now = number, graph
