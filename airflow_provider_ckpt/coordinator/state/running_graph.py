"""The graph that a job currently runs.

It may change while the job runs, so its users read it each time they need it.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.model.graph import JobGraph


@dataclass
class RunningGraph:
    """The current graph.

    A change that is in the journal but has not begun is not in this graph. The affected subtasks have paused for it
    first (R21).
    """

    now: JobGraph
