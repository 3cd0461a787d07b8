"""The graph that a job currently runs.

It may change while the job runs, so its users read it each time they need it.
"""

from __future__ import annotations

from airflow_provider_ckpt.model.graph import JobGraph


class RunningGraph:
    """The current graph and its number. The number is 0 at the start of the epoch and rises by one with each change.

    A change that is in the journal but has not begun is not in this graph.
    """

    def __init__(self, graph: JobGraph) -> None:
        self.now = graph
        self.number = 0

    def change(self, number: int, graph: JobGraph) -> None:
        """Replace the graph. The journal has the change, and the affected subtasks have paused for it (R21)."""
        self.number, self.now = number, graph
