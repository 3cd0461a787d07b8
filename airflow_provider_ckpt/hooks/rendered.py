"""Arguments of tasks that are known when the task runs only, and those whose template gave nothing. Airflow renders
None of an XCom that is not there, and of a native template; to a constructor None is an argument that nobody gave, and
the task would do something else than it says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.storage.layout import check_job_id

_MARKS = ("{{", "{%", "{#")


def given_names(task: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the task's arguments that somebody gave; asked in its constructor."""
    return tuple(name for name in names if getattr(task, name) is not None)


def refuse_lost(task: Any, given: Iterable[str]) -> None:
    """``given``: of :func:`given_names`. When the task runs, before anything is done. Raises
    InvalidTaskArgumentError."""
    for name in given:
        value = getattr(task, name)
        if value is None or (isinstance(value, str) and not value.strip()):
            problem = (
                "it was given, and its template or XCom came to nothing. Without it the task would do something else: "
                "see that what it is made of is there, or leave it out"
            )
            raise InvalidTaskArgumentError(argument=name, value=value, problem=problem)


def is_rendered_later(value: object) -> bool:
    """Whether Airflow makes the value, or a part of it, when the task runs."""
    if isinstance(value, str):
        return any(mark in value for mark in _MARKS)
    if isinstance(value, Mapping):
        return any(is_rendered_later(part) for part in value.values())
    return hasattr(value, "resolve")  # XComArg and what else Airflow resolves before the task runs


def check_given_job_id(job_id: object) -> None:
    """Of the job that a task looks for, while the Dag is read. Raises InvalidJobIdError."""
    if isinstance(job_id, str) and not is_rendered_later(job_id):
        check_job_id(job_id)
