"""The graph that a job currently runs. It may change, so its users read it each time they need it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.model.graph import JobGraph


@dataclass
class RunningGraph:
    """The current graph. It lacks changes that are in the journal but have not begun, because subtasks pause first
    (R21).
    """

    now: JobGraph
