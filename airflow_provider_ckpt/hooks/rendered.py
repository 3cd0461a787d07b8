"""Arguments of tasks whose template gave nothing. Airflow renders None of an XCom that is not there, and of a native
template; to a constructor None is an argument that nobody gave, and the task would do something else than it says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError


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
