"""A checkpointed job as a group of Airflow tasks, one for each subtask."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import TaskGroup

from airflow_provider_ckpt.operators.arguments import check_timing
from airflow_provider_ckpt.operators.group_arguments import (
    TIMING,
    Subtasks,
    check_for_tasks,
    check_options,
    check_standbys,
    subtasks_with_arguments,
)
from airflow_provider_ckpt.operators.master_task import MasterTaskOperator
from airflow_provider_ckpt.operators.plan_task import PlanTaskOperator
from airflow_provider_ckpt.operators.subtask_task import StandbyTaskOperator, SubtaskTaskOperator

_SHOWN = ("tooltip", "doc_md", "ui_color", "ui_fgcolor", "group_display_name")
_GROUPS = ("prefix_group_id", "parent_group", "dag", *_SHOWN)
_RETRIES: Mapping[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=10)}
"""Retries with short delays, because no checkpoint completes while a subtask waits. Airflow's default is 5 min."""


class CheckpointedSparkJobGroup(TaskGroup):
    """Run a :class:`~airflow_provider_ckpt.Job` with one Airflow task for each subtask, each with a Spark of its own::

        CheckpointedSparkJobGroup("orders", job="jobs/orders.py:job", job_id="orders", checkpoint_interval="30s")

    * ``plan`` prepares the job and returns the names of its subtasks.
    * ``subtask`` is mapped over the names and runs one subtask in each instance. A retry restarts that subtask alone,
      while the others continue. In batch mode the instance succeeds only with the job, because until the job's end a
      lost result must be produced again.
    * ``coordinate`` runs the JobMaster and ends with the job's result.

    All subtasks run at the same time, so a pool needs a slot for each subtask and for ``coordinate``. docs/airflow.md
    describes a retry, a clear and a new Dag run.

    :param job: the job, as for ``CheckpointedSparkJobOperator``. The group takes these arguments of that operator by
        name, too: the options of a run (``checkpoint_interval=``, ``stop_at=``, …), ``root``, ``job_id``,
        ``ckpt_conn_id``, ``conn_ids``, ``options``, ``stop_grace`` and ``poll_interval``. The Dag does not import the
        job's file. Give Airflow's ``retries`` and ``retry_delay`` (3 and 10 s by default) instead of
        ``restart_attempts`` and ``restart_delay``.
    :param poll: time between two polls of JobMaster and workers, 100 ms if the root is local, else 1 s.
    :param lost_after: time without a sign of life after which a worker, or a JobMaster in another triggerer, counts as
        lost (30 s).
    :param silence: how long a worker continues without a JobMaster, and how long a JobMaster that completes no
        checkpoint is restarted (5 min).
    :param subtasks: all subtasks of the job, to give each its own task instead of the mapped task: subtasks
        (``history/0``), or vertices with all of their subtasks (``history``). A mapping gives each task its arguments
        of Airflow (``pool``, ``queue``, ``retries``, …) and of spark-submit (``conf``, ``driver_memory``, …).
    :param standbys: number of additional tasks (``standby-1``, …), each with a running Spark. A standby takes over the
        subtasks of a lost worker at once, because it need not start a JVM. The retry of the lost
        worker's task then becomes the standby.
    :param spark: arguments of ``SparkSubmitOperator`` for all tasks (``conn_id``, ``conf``, ``packages``, …).
    :param plan: Airflow's arguments of the task ``plan``.
    :param subtask: Airflow's arguments of the tasks of subtasks.
    :param coordinate: Airflow's arguments of the task ``coordinate``.

    Raises InvalidTaskArgumentError if an argument is bad or belongs elsewhere, and a subclass of InvalidInputError for
    the bad value of an option.
    """

    def __init__(
        self,
        group_id: str,
        *,
        job: str,
        subtasks: Subtasks | None = None,
        standbys: int = 0,
        spark: Mapping[str, Any] | None = None,
        plan: Mapping[str, Any] | None = None,
        subtask: Mapping[str, Any] | None = None,
        coordinate: Mapping[str, Any] | None = None,
        default_args: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        group_options = {name: options.pop(name) for name in _GROUPS if name in options}
        check_options(options)
        check_standbys(standbys)
        for_tasks = {"spark": spark, "plan": plan, "subtask": subtask, "coordinate": coordinate}
        check_for_tasks({**for_tasks, "default_args": default_args})
        super().__init__(group_id=group_id, default_args=dict(default_args or {}), **group_options)  # type: ignore[arg-type]
        self._add_retries()
        given = {"job": job, "ckpt_group": self.group_id, **(spark or {}), **options}
        with self:
            plan_task = PlanTaskOperator(task_id="plan", **{**given, **(plan or {})})
            subtask_arguments = {**given, "coordinate": f"{self._prefix()}coordinate", **(subtask or {})}
            for number in range(1, standbys + 1):
                plan_task >> StandbyTaskOperator(task_id=f"standby-{number}", **subtask_arguments)
            subtask_arguments["has_standbys"] = standbys > 0
            # The operator of a mapped task is only made when the task runs, so the times are checked here.
            check_timing({name: subtask_arguments.get(name) for name in TIMING})
            if subtasks is None:
                tasks: str | list[str] = f"{self._prefix()}subtask"
                mapped = SubtaskTaskOperator.partial(
                    task_id="subtask", map_index_template="{{ task.subtask }}", **subtask_arguments
                ).expand(subtask=plan_task.output)
                plan_task >> mapped
            else:
                listed = subtasks_with_arguments(subtasks)
                tasks = [_add_listed_subtask(name, subtask_arguments, listed[name], plan_task) for name in listed]
            names = plan_task.output if subtasks is None else list(subtasks)
            master = MasterTaskOperator(
                task_id="coordinate",
                subtasks=names,
                subtask_tasks=tasks,
                **{**_with_top_priority(given), **(coordinate or {})},
            )
            plan_task >> master

    def _prefix(self) -> str:
        return f"{self.group_id}." if self.prefix_group_id and self.group_id else ""

    def _add_retries(self) -> None:
        """Set default retries, unless the group, an outer group or the Dag sets its own."""
        configured = {**(self.dag.default_args or {}), **self.default_args}
        self.default_args.update({name: value for name, value in _RETRIES.items() if name not in configured})


def _add_listed_subtask(
    name: str, given: Mapping[str, Any], overrides: Mapping[str, Any], plan_task: PlanTaskOperator
) -> str:
    """Add the task of a listed subtask and return the task's id. ``overrides`` wins over ``given``."""
    conf = {**(given.get("conf") or {}), **(overrides.get("conf") or {})}
    arguments = {**given, **overrides, "conf": conf or None}
    task = SubtaskTaskOperator(task_id=re.sub(r"[^\w.-]", "-", name), subtask=name, **arguments)
    plan_task >> task
    return str(task.task_id)


def _with_top_priority(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``given`` with a high default priority for a slot, because no checkpoint completes without a JobMaster."""
    return {"priority_weight": 1000, "weight_rule": "absolute", **given}
