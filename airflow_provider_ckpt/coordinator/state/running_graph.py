"""The graph that a job currently runs. Callers read it again for each use, because it may change."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.model.graph import JobGraph


@dataclass
class RunningGraph:
    """The current graph. A journaled change enters it when the subtasks that pause for it have resumed (R21)."""

    now: JobGraph
