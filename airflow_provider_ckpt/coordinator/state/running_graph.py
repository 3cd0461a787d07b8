"""The graph that a job currently runs. The graph may change, so callers read it again for each use."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.model.graph import JobGraph


@dataclass
class RunningGraph:
    """The current graph. A journaled change is added when all subtasks that pause for it have resumed (R21)."""

    now: JobGraph
