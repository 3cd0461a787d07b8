"""Airflow's state of a trigger's own task.

Airflow calls ``on_kill`` when a user killed the task, and also when a user cleared the task or another triggerer took
it over (apache/airflow#73454). The state shows which of them it is.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

OVER = ("failed", "success", "skipped", "removed")
"""States of a task that will not run again."""


def state_of_task(ti: Any) -> str:
    """Return Airflow's state of the task, "removed" if its Dag run is gone. Blocks. Raises the errors of the
    request."""
    if ti is None:
        return "not known"
    mapped = ti.map_index is not None and ti.map_index >= 0
    found = RuntimeTaskInstance.get_task_states(
        dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id], map_index=ti.map_index if mapped else None
    )
    name = f"{ti.task_id}_{ti.map_index}" if mapped else ti.task_id
    states = found.get(ti.run_id, {})
    return "removed" if name not in states else str(states[name] or "none")
