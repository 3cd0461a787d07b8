"""A checkpointed job as a group of Airflow tasks: one for each of its subtasks."""

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
from airflow_provider_ckpt.operators.standby_task import StandbyTaskOperator
from airflow_provider_ckpt.operators.subtask_task import SubtaskTaskOperator

_SHOWN = ("tooltip", "doc_md", "ui_color", "ui_fgcolor", "group_display_name")
_GROUPS = ("prefix_group_id", "parent_group", "dag", *_SHOWN)
_RETRIES: Mapping[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=10)}
"""While a subtask waits for its next try no checkpoint is taken: Airflow's five minutes are long for that."""


class CheckpointedSparkJobGroup(TaskGroup):
    """Run a :class:`~airflow_provider_ckpt.Job` with one Airflow task for each subtask, each with a Spark of its own::

        CheckpointedSparkJobGroup("orders", job="jobs/orders.py:job", job_id="orders", checkpoint_interval="30s")

    * ``plan`` prepares the job, and returns the names of its subtasks;
    * ``subtask``, mapped over them, runs one each; a try of it is a try of that subtask, and the others go on; in batch
      mode it ends with the job, as its result may be lost, and wanted again, until then;
    * ``coordinate`` runs the JobMaster, and ends as the job does.

    What a retry, a clear and a new Dag run do is in docs/airflow.md. All subtasks run at once: a pool needs a slot for
    each of them, and one for ``coordinate``.

    :param job: as in ``CheckpointedSparkJobOperator``; so are the options of a run, which are given by their names
        (``checkpoint_interval=``, ``stop_at=``, …), ``root``, ``job_id``, ``ckpt_conn_id``, ``conn_ids``,
        ``options``, ``stop_grace`` and ``poll_interval``. The file is not imported when the Dag is read.
        ``restart_attempts`` and ``restart_delay`` are Airflow's ``retries`` and ``retry_delay`` here (3 and 10 s unless
        the Dag says otherwise).
    :param poll: how often JobMaster and workers look at each other: 100 ms if the root is local, else 1 s. This and the
        next two are flags of ``ckpt master`` and ``ckpt worker``, too.
    :param lost_after: a worker, or a JobMaster in another triggerer, that gives no sign of life for so long counts as
        lost (30 s).
    :param silence: how long a worker goes on without a JobMaster, and a JobMaster begins again that completes no
        checkpoint (5 min).
    :param subtasks: the subtasks (``history/0``), or vertices with all of their subtasks (``history``), if they are to
        be tasks of their own instead of a mapped one; a mapping gives each its arguments: Airflow's (``pool``,
        ``queue``, ``retries``, …) and those of spark-submit (``conf``, ``driver_memory``, …). All have to be named.
    :param standbys: so many tasks more (``standby-1``, …), each with a Spark of its own that stands by: it runs what a
        worker leaves behind at once, where a retry would begin with a JVM; the retry stands by in its place.
    :param spark: arguments of ``SparkSubmitOperator`` for all tasks (``conn_id``, ``conf``, ``packages``, …).
    :param plan: Airflow's arguments of ``plan``; ``subtask``, ``coordinate``: of the others.

    Raises InvalidTaskArgumentError, and what an option's value is refused with.
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
        about = {name: options.pop(name) for name in _GROUPS if name in options}
        check_options(options)
        check_standbys(standbys)
        for_tasks = {"spark": spark, "plan": plan, "subtask": subtask, "coordinate": coordinate}
        check_for_tasks({**for_tasks, "default_args": default_args})
        super().__init__(group_id=group_id, default_args=dict(default_args or {}), **about)  # type: ignore[arg-type]
        self._add_retries()
        given = {"job": job, "ckpt_group": self.group_id, **(spark or {}), **options}
        with self:
            planned = PlanTaskOperator(task_id="plan", **{**given, **(plan or {})})
            of_subtasks = {**given, "coordinate": f"{self._prefix()}coordinate", **(subtask or {})}
            for number in range(1, standbys + 1):
                planned >> StandbyTaskOperator(task_id=f"standby-{number}", **of_subtasks)
            of_subtasks["spared"] = standbys > 0
            check_timing({name: of_subtasks.get(name) for name in TIMING})  # a mapped task is made when it runs
            if subtasks is None:
                tasks: str | list[str] = f"{self._prefix()}subtask"
                mapped = SubtaskTaskOperator.partial(
                    task_id="subtask", map_index_template="{{ task.subtask }}", **of_subtasks
                ).expand(subtask=planned.output)
                planned >> mapped
            else:
                own = subtasks_with_arguments(subtasks)
                tasks = [_listed(name, of_subtasks, own[name], planned) for name in own]
            names = planned.output if subtasks is None else list(subtasks)
            coordinated = MasterTaskOperator(
                task_id="coordinate", subtasks=names, subtask_tasks=tasks, **{**_first(given), **(coordinate or {})}
            )
            planned >> coordinated

    def _prefix(self) -> str:
        """Of the ids of its tasks."""
        return f"{self.group_id}." if self.prefix_group_id and self.group_id else ""

    def _add_retries(self) -> None:
        """Unless somebody said something: the group, one around it, or the Dag."""
        known = {**(self.dag.default_args or {}), **self.default_args}
        self.default_args.update({name: value for name, value in _RETRIES.items() if name not in known})


def _listed(name: str, given: Mapping[str, Any], own: Mapping[str, Any], planned: PlanTaskOperator) -> str:
    """Its task, by its id. Its Spark settings come on top of those for all."""
    conf = {**(given.get("conf") or {}), **(own.get("conf") or {})}
    arguments = {**given, **own, "conf": conf or None}
    task = SubtaskTaskOperator(task_id=re.sub(r"[^\w.-]", "-", name), subtask=name, **arguments)
    planned >> task
    return str(task.task_id)


def _first(given: Mapping[str, Any]) -> dict[str, Any]:
    """Among those that wait for a slot it is the first: without a JobMaster nothing is committed."""
    return {"priority_weight": 1000, "weight_rule": "absolute", **given}
