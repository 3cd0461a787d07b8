"""Parameters of a job: texts that one run gives, and that the job's code reads by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from airflow_provider_ckpt.job.errors import BadParamError, LateParamError, MissingParamError, UnknownParamError
from airflow_provider_ckpt.job.locations import caller_location
from airflow_provider_ckpt.job.suggestions import did_you_mean, listed, misspelt

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class NotGiven:
    """The default of a parameter that has none; None would be one."""

    def __repr__(self) -> str:
        return "<no default>"


NOT_GIVEN = NotGiven()


class Params:
    """What was given, and what the code has asked for while its file was read.

    Once the file is read (:meth:`seal`) no further name can be asked for: a name that only a function asks for, when
    its query starts, could not be told from a name that was spelled wrongly.
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
        """Every name that was asked for -> its value in this run; a read-only view."""
        return MappingProxyType(self._known)

    def read(self, job: str | None, name: str, default: str | NotGiven | None) -> str | None:
        """Raises BadParamError, MissingParamError, LateParamError, each with the line that asks."""
        location = caller_location()
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadParamError(job=job, location=location, what=f"name {name!r}", expected="a name such as 'day'")
        if not isinstance(default, str | NotGiven | None):
            raise BadParamError(
                job=job, location=location, what=f"default of {name!r}, {default!r},", expected="a text or None"
            )
        if self._sealed and name not in self._known:
            raise LateParamError(job=job, location=location, name=name, known=listed(self._known))
        value = self._given.get(name, default)
        if isinstance(value, NotGiven):
            suggestion = misspelt(name, self._given)
            raise MissingParamError(
                job=job, location=location, name=name, given=listed(self._given), suggestion=suggestion
            )
        self._known[name] = value
        return value

    def seal(self, reference: str) -> None:
        """The file was read. Raises UnknownParamError for what was given and not asked for."""
        self._sealed = True
        for name in self._given:
            if name not in self._known:
                raise UnknownParamError(
                    reference=reference,
                    name=name,
                    suggestion=did_you_mean(name, self._known),
                    known=listed(self._known),
                )


_current: ContextVar[Params | None] = ContextVar("ckpt_params", default=None)


def current_params() -> Params:
    """For a Job that is being made: those of the run that reads its file, or none."""
    return _current.get() or Params()


@contextmanager
def giving(params: Params) -> Iterator[None]:
    """Jobs made inside have these parameters."""
    token = _current.set(params)
    try:
        yield
    finally:
        _current.reset(token)
