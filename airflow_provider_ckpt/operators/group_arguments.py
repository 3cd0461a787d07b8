"""Checks of a group's arguments while Airflow parses the Dag. Each error names the place where the argument belongs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator

from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.job.options.suggestions import did_you_mean
from airflow_provider_ckpt.operators.arguments import ARGUMENTS

TIMING = ("poll", "lost_after", "silence")
_GROUP_OPTIONS = ("ckpt_conn_id", "conn_ids", "options", "stop_grace", "poll_interval", *TIMING)
_AIRFLOWS = {"restart_attempts": "retries", "restart_delay": "retry_delay"}
_UNSUPPORTED = {
    "on_clear": "cleared tasks of a group resume the job",
    "deferrable": "its tasks defer by themselves (coordinate={'deferrable': False} keeps a worker slot)",
}
_SET_BY_GROUP = ("task_id", "subtask", "subtasks", "subtask_tasks", "coordinate", "ckpt_group", "has_standbys")

Subtasks = Sequence[str] | Mapping[str, Mapping[str, Any]]


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that a group does not have."""
    valid = {*ARGUMENTS, *_GROUP_OPTIONS} - {*_AIRFLOWS, "job"}
    for name, value in options.items():
        if name not in valid:
            raise InvalidTaskArgumentError(argument=name, value=value, problem=_place_of(name, valid))


def _place_of(name: str, valid: set[str]) -> str:
    """Return the reason for refusing an argument of the group, with the place where the argument belongs."""
    if name in _AIRFLOWS:
        return f"a subtask of a group is restarted by Airflow: give {_AIRFLOWS[name]} in default_args or subtask="
    if name in _UNSUPPORTED:
        return f"a group has no such argument: {_UNSUPPORTED[name]}"
    if name in _parameters(BaseOperator):
        return "it is one of Airflow's for a task: give it in default_args=, or in plan=, subtask= or coordinate="
    if name in _parameters(SparkSubmitOperator):
        return "it is one of spark-submit's: give it in spark="
    hint = did_you_mean(name, sorted(valid)) or " spark= takes spark-submit's, default_args= Airflow's"
    return f"a group has no such argument.{hint}".rstrip(".")


def _parameters(operator: type[BaseOperator]) -> set[str]:
    return {*inspect.signature(operator.__init__).parameters} - {"self", "kwargs"}


def check_for_tasks(given: Mapping[str, object]) -> None:
    """Refuse bad values of ``spark``, ``plan``, ``subtask``, ``coordinate`` and ``default_args`` (name -> value).

    Each value must be a mapping without the arguments that the group sets.
    """
    for argument, value in given.items():
        if value is None:
            continue
        if not isinstance(value, Mapping):
            problem = "give a mapping of arguments by name"
            raise InvalidTaskArgumentError(argument=argument, value=value, problem=problem)
        _refuse_reserved(argument, value)


def _refuse_reserved(argument: str, given: Mapping[str, Any]) -> None:
    reserved = [name for name in _SET_BY_GROUP if name in given]
    if reserved and argument != "default_args":
        problem = f"{reserved[0]} is set by the group"
        raise InvalidTaskArgumentError(argument=argument, value=dict(given), problem=problem)
    if given.get("deploy_mode") == "cluster":
        problem = "the workers of a group run in client mode: leave deploy_mode out"
        raise InvalidTaskArgumentError(argument=argument, value=dict(given), problem=problem)


def check_standbys(standbys: object) -> None:
    """Refuse a value of ``standbys`` that is no whole number from 0 upwards."""
    if isinstance(standbys, bool) or not isinstance(standbys, int) or standbys < 0:
        problem = "give a number of tasks that stand by, 0 for none"
        raise InvalidTaskArgumentError(argument="standbys", value=standbys, problem=problem)


def subtasks_with_arguments(subtasks: Subtasks) -> Mapping[str, Mapping[str, Any]]:
    """Return subtask or vertex → arguments of its Airflow task.

    Raises InvalidTaskArgumentError if ``subtasks`` has the wrong type or is empty, if a name or an argument is
    reserved, if ``deploy_mode`` is "cluster", or if two tasks would run the same subtask.
    """
    if isinstance(subtasks, str) or not all(isinstance(name, str) and name.strip() for name in subtasks):
        problem = "give a list of subtasks (history/0) or vertices (history), or a mapping of them to their arguments"
        raise InvalidTaskArgumentError(argument="subtasks", value=subtasks, problem=problem)
    if isinstance(subtasks, Mapping) and not all(isinstance(arguments, Mapping) for arguments in subtasks.values()):
        problem = "give each subtask a mapping of arguments, {} for none"
        raise InvalidTaskArgumentError(argument="subtasks", value=subtasks, problem=problem)
    if not subtasks:
        raise InvalidTaskArgumentError(argument="subtasks", value=subtasks, problem="name all of them, or leave it out")
    _check_names(list(subtasks))
    if not isinstance(subtasks, Mapping):
        return {name: {} for name in subtasks}
    for arguments in subtasks.values():
        _refuse_reserved("subtasks", arguments)
    return subtasks


def _check_names(names: list[str]) -> None:
    for name in names:
        vertex, _, number = name.rpartition("/")
        if names.count(name) > 1 or (number.isdigit() and vertex in names):
            problem = f"{name} is named twice{'' if names.count(name) > 1 else f', once by its vertex {vertex}'}"
            raise InvalidTaskArgumentError(argument="subtasks", value=names, problem=problem)
        if name in ("plan", "coordinate"):
            problem = f"the group has a task {name} of its own: name its subtasks ({name}/0), or leave subtasks out"
            raise InvalidTaskArgumentError(argument="subtasks", value=names, problem=problem)
