"""Every error's message can be made from the arguments of its raise. A missing field would be a KeyError."""

from __future__ import annotations

import ast
import importlib
import pickle
import re
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import airflow_provider_ckpt
from airflow_provider_ckpt.errors import (
    CkptError,
    DeletionRefusal,
    DeletionRefusedError,
    InvalidInputError,
    RequestFailedError,
    RequestFailure,
    TransientError,
)

PACKAGE = Path(airflow_provider_ckpt.__file__).parent
MODULES = sorted(PACKAGE.rglob("errors.py"))


def _module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def _errors() -> dict[str, type[CkptError]]:
    errors: dict[str, type[CkptError]] = {}
    for path in MODULES:
        for value in vars(importlib.import_module(_module(path))).values():
            if isinstance(value, type) and issubclass(value, CkptError) and value.__module__ == _module(path):
                assert value.__name__ not in errors, f"two errors are called {value.__name__}"
                errors[value.__name__] = value
    return errors


ERRORS = _errors()


class Call(NamedTuple):
    """Call that makes an error."""

    where: str
    error: str
    template: object
    given: frozenset[str]


@cache
def calls() -> list[Call]:
    return list(_calls())


def _calls() -> Iterator[Call]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                keywords = [keyword.arg for keyword in node.keywords]
                if None not in keywords:  # else the fields are in a dict
                    yield Call(
                        f"{path.relative_to(PACKAGE)}:{node.lineno}",
                        node.func.id,
                        _template(node, ERRORS[node.func.id]),
                        frozenset(str(keyword) for keyword in keywords),
                    )


def _template(node: ast.Call, error: type[CkptError]) -> object:
    """Return the template of the call, or the template of the class; None if the call has no literal."""
    if not node.args:
        return error.template
    return node.args[0].value if len(node.args) == 1 and isinstance(node.args[0], ast.Constant) else None


def fields(template: object) -> frozenset[str]:
    return frozenset(name.split(".")[0] for _, name, _, _ in string.Formatter().parse(str(template)) if name)


def test_calls_that_raise_errors_are_found() -> None:
    assert len(calls()) > 100
    assert {call.error for call in calls()} <= ERRORS.keys()


def test_a_given_message_is_a_literal() -> None:
    assert [call for call in calls() if not isinstance(call.template, str)] == []


def test_an_error_is_raised_with_the_fields_that_its_message_needs() -> None:
    missing = {f"{call.where} {call.error}": fields(call.template) - call.given for call in calls()}
    assert {call: names for call, names in missing.items() if names} == {}


def test_every_declared_error_is_used() -> None:
    """A use is a raise, a catch or a subclass."""
    text = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    assert not [name for name in ERRORS if text.count(name) < 2]


def test_an_error_is_declared_in_a_folder_that_raises_it() -> None:
    """Other folders may raise it, too.

    The root's errors, bases, and errors of a conditional expression are not checked.
    """
    made: dict[str, set[str]] = {}
    for call in calls():
        made.setdefault(call.error, set()).add(str(Path(call.where.partition(":")[0]).parent))
    homes = {name: str(Path(*ERRORS[name].__module__.split(".")[1:]).parent) for name in made}
    apart = {
        name: folders
        for name, folders in made.items()
        if homes[name] != "." and not any(folder.split("/")[0] == homes[name].split("/")[0] for folder in folders)
    }
    assert apart == {}


def test_each_reason_of_a_failed_request_belongs_to_one_class() -> None:
    classes: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node, "name", None) or ast.unparse(getattr(node, "func", ast.Pass()))
            if isinstance(node, (ast.ClassDef, ast.Call)) and name in ERRORS:
                for reason in re.findall(r"\breason ?= ?RequestFailure\.(\w+)", ast.unparse(node)):
                    classes.setdefault(reason, set()).add(name)
    assert classes.keys() == RequestFailure.__members__.keys()
    assert {reason: names for reason, names in classes.items() if len(names) > 1} == {}


def test_each_reason_of_a_refused_deletion_is_raised() -> None:
    source = (PACKAGE / "jobmaster/retention/job_deletion.py").read_text()
    assert {name for name in DeletionRefusal.__members__ if f"reason=DeletionRefusal.{name}," not in source} == set()
    made = [call for call in calls() if issubclass(ERRORS[call.error], DeletionRefusedError)]
    assert [call for call in made if "reason" not in call.given] == []


@pytest.mark.parametrize("family", [RequestFailedError, DeletionRefusedError])
def test_a_family_with_reasons_is_public_and_its_errors_are_private(family: type[CkptError]) -> None:
    kinds = [error.__name__ for error in ERRORS.values() if issubclass(error, family) and error is not family]
    assert family.__name__ in airflow_provider_ckpt.__all__
    assert not set(kinds) & set(airflow_provider_ckpt.__all__)


@pytest.mark.parametrize("family", [RequestFailedError, DeletionRefusedError])
def test_an_error_of_a_family_shows_whether_a_retry_may_help(family: type[CkptError]) -> None:
    kinds = [error for error in ERRORS.values() if issubclass(error, family) and error is not family]
    assert {kind.retryable for kind in kinds} == {True, False}
    for kind in kinds:
        assert issubclass(kind, TransientError if kind.retryable else InvalidInputError)


def test_a_failed_request_keeps_its_reason_when_it_is_pickled() -> None:
    error = ERRORS["RequestRefusedError"](
        "the next run of job {job_id!r} cannot have this change: {why}",
        reason=RequestFailure.NOT_FOR_NEXT_RUN,
        job_id="orders",
        why="it is FINISHED",
    )
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, RequestFailedError)
    assert copy.reason is RequestFailure.NOT_FOR_NEXT_RUN
    assert str(copy) == "the next run of job 'orders' cannot have this change: it is FINISHED"


def test_an_error_survives_pickling_with_the_message_of_its_raise() -> None:
    changed = []
    for name, kind in ERRORS.items():
        error = kind("{uri}: {reason}", uri="file:///lake", reason="no room")
        copy = pickle.loads(pickle.dumps(error))
        if (type(copy), str(copy), copy.data) != (kind, "file:///lake: no room", error.data):
            changed.append(name)
    assert changed == []
