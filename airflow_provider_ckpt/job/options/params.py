"""Parameters of a job, and the places in the user's code that define its operators.

A parameter is a text that a run gives and that the job's code reads by name. A place is "file:line".
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from airflow_provider_ckpt.job.errors import BadOptionError, InvalidJobError
from airflow_provider_ckpt.job.options.suggestions import did_you_mean, listed, misspelt

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def function_location(function: Callable[..., Any]) -> str | None:
    """Return ``file:line`` where the function, or its first decorator, begins.

    None if the function is not written in Python, or is a partial.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def caller_location() -> str:
    """Return "file:line" of the innermost call in code outside of the folder ``job`` of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class NotGiven:
    """Marker for a parameter without a default, because None can be a default."""

    def __repr__(self) -> str:
        return "<no default>"


NOT_GIVEN = NotGiven()


class Params:
    """The parameters that a run gives, and the names that the job's code has read.

    After the job's file has been loaded (:meth:`seal`), a name that the file did not read is refused. Otherwise
    ``seal`` would take a parameter that only a function reads for a misspelt one.
    """

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._given = dict(given or {})
        self._known: dict[str, str | None] = {}
        self._sealed = False

    @property
    def given(self) -> Mapping[str, str]:
        return MappingProxyType(self._given)

    @property
    def known(self) -> Mapping[str, str | None]:
        """Parameter that the code has read -> its value in this run. A read-only view."""
        return MappingProxyType(self._known)

    def read(self, job: str | None, name: str, default: str | NotGiven | None) -> str | None:
        """Return the value of a parameter. Each error names the line that reads the parameter.

        Raises InvalidJobError if the name or the default is bad, if there is neither a value nor a default, or if the
        name is read for the first time after the file was loaded.
        """
        location = caller_location()
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise _not_possible(job, location, f"name {name!r}", "a name such as 'day'")
        if not isinstance(default, str | NotGiven | None):
            raise _not_possible(job, location, f"default of {name!r}, {default!r},", "a text or None")
        if self._sealed and name not in self._known:
            raise InvalidJobError(
                "job {job!r} ({location}) reads the parameter {name!r} inside a function, and did not when its file "
                'was read. Write NAME = job.param("{name}") at the top level of the file and use NAME. Parameters '
                "that are read there: {known}.",
                job=job,
                location=location,
                name=name,
                known=listed(self._known),
            )
        value = self._given.get(name, default)
        if isinstance(value, NotGiven):
            suggestion = misspelt(name, self._given)
            raise InvalidJobError(
                "job {job!r} ({location}) needs the parameter {name!r}, which this run does not give.{suggestion} "
                'Given: {given}. Give it with --param {name}=VALUE or job_params={{"{name}": "VALUE"}}, or write a '
                'default: job.param("{name}", default="VALUE").',
                job=job,
                location=location,
                name=name,
                given=listed(self._given),
                suggestion=suggestion,
            )
        self._known[name] = value
        return value

    def seal(self, reference: str) -> None:
        """Refuse names that are read for the first time after this call.

        Raises BadOptionError if the run gives a parameter that the job's file has not read.
        """
        self._sealed = True
        for name in self._given:
            if name not in self._known:
                raise BadOptionError(
                    "the job {reference!r} has no parameter {name!r}.{suggestion} It reads: {known}.",
                    reference=reference,
                    name=name,
                    suggestion=did_you_mean(name, self._known),
                    known=listed(self._known),
                )


def _not_possible(job: str | None, location: str, subject: str, expected: str) -> InvalidJobError:
    return InvalidJobError(
        "job {job!r} ({location}): the {what} of a parameter is not possible; expected {expected}.",
        job=job,
        location=location,
        what=subject,
        expected=expected,
    )


_current: ContextVar[Params | None] = ContextVar("ckpt_params", default=None)


def current_params() -> Params:
    """Return the parameters of the run that loads the job's file. Empty if no run loads a file."""
    return _current.get() or Params()


@contextmanager
def giving(params: Params) -> Iterator[None]:
    """Make ``params`` the parameters of all Jobs that are created in the block."""
    token = _current.set(params)
    try:
        yield
    finally:
        _current.reset(token)
