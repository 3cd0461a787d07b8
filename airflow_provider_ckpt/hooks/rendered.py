"""Templated arguments of tasks, and the refusal of arguments that were rendered without a value.

If an XCom or a param has no value, Airflow renders None, or the text "None" in a Dag that is not native. A task with
such an argument would run another job or read another folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.storage.redaction import redact_uri

_MARKS = ("{{", "{%", "{#")
_EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_NONE = re.compile(r"None(?![A-Za-z0-9])")
"""A rendered None, also as a part: "None/in", "orders_None", "ordersNone". Not "Nonesuch"."""
_IDENTITY = ("job_id", "root")
"""Arguments that must be a text. A native Dag turns "20260328" into a number."""


@dataclass(frozen=True)
class GivenArguments:
    """Arguments that a task was given. ``written`` is argument -> its text in the Dag's file, before rendering."""

    names: tuple[str, ...]
    written: Mapping[str, str]


def given_arguments(task: Any, names: Iterable[str]) -> GivenArguments:
    """Return the task's arguments that are not None. The task's constructor calls this, before rendering."""
    given = tuple(name for name in names if getattr(task, name) is not None)
    parts = [part for name in given for part in _parts(name, getattr(task, name))]
    return GivenArguments(given, {name: text for name, text in parts if isinstance(text, str)})


def refuse_lost(task: Any, given: GivenArguments) -> None:
    """Refuse arguments that were rendered without a value, before the task does anything else.

    Raises InvalidTaskArgumentError if an argument is empty, has a rendered None, or must be a text and is none.
    """
    for name in given.names:
        value = getattr(task, name)
        if value is None or (isinstance(value, str) and not value.strip()):
            problem = (
                "it was given, but its template or XCom is empty. Without it the task would do something else: "
                "make sure that the template's values exist, or leave it out"
            )
            raise InvalidTaskArgumentError(argument=name, value=value, problem=problem)
        if name in _IDENTITY and isinstance(value, int | float):
            problem = (
                f"its template gave a value of type {type(value).__name__}, and it must be a text. A Dag with "
                "native templates makes a number of digits: put letters before them, such as orders-{{ ds_nodash }}"
            )
            raise InvalidTaskArgumentError(argument=name, value=value, problem=problem)
        for part, text in _parts(name, value):
            if _is_lost(text, given.written.get(part)):
                problem = (
                    "a template in it gave None: an XCom, a param or a variable has no value. Make sure that it has "
                    "one, or give a default in the template, such as {{ params.day or 'all' }}"
                )
                shown = redact_uri(text) if name == "root" and text is not None else text
                raise InvalidTaskArgumentError(argument=part, value=shown, problem=problem)


def _parts(name: str, value: object) -> Iterator[tuple[str, str | None]]:
    """Yield (name, text) for each text in an argument, and (name, None) for each None in a mapping or list."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if part is None:
                yield f"{name}[{key!r}]", None
            else:
                yield from _parts(f"{name}[{key!r}]", part)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            if part is None:
                yield f"{name}[{number}]", None
            else:
                yield from _parts(f"{name}[{number}]", part)


def _is_lost(text: str | None, written: str | None) -> bool:
    """Return True if a rendered text has a None that the text in the Dag's file does not have."""
    if text is None:
        return True
    if text == written or _NONE.search(text) is None:
        return False
    return written is None or _NONE.search(_EXPRESSION.sub(" ", written)) is None


def is_rendered_later(value: object) -> bool:
    """Return True if the value, or a part of it, is a template or another value that Airflow resolves at run time."""
    if isinstance(value, str):
        return any(mark in value for mark in _MARKS)
    if isinstance(value, Mapping):
        return any(is_rendered_later(part) for part in value.values())
    return hasattr(value, "resolve")  # XComArg and other values that Airflow resolves before the task runs


def check_given_job_id(job_id: object) -> None:
    """Refuse a job id that cannot name a job, while the Dag is parsed. A template passes. Raises InvalidJobIdError."""
    if isinstance(job_id, str) and not is_rendered_later(job_id):
        check_job_id(job_id)
