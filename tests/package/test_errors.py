"""Every error's message can be made from the arguments of its raise. A missing field would be a KeyError."""

from __future__ import annotations

import ast
import importlib
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import airflow_provider_ckpt
from airflow_provider_ckpt.errors import CkptError

PACKAGE = Path(airflow_provider_ckpt.__file__).parent
MODULES = sorted(PACKAGE.rglob("errors.py"))


def _module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def _errors() -> dict[str, type[CkptError]]:
    found: dict[str, type[CkptError]] = {}
    for path in MODULES:
        for value in vars(importlib.import_module(_module(path))).values():
            if isinstance(value, type) and issubclass(value, CkptError) and value.__module__ == _module(path):
                assert value.__name__ not in found, f"two errors are called {value.__name__}"
                found[value.__name__] = value
    return found


ERRORS = _errors()


@cache
def calls() -> list[tuple[str, str, frozenset[str]]]:
    return list(_calls())


def _calls() -> Iterator[tuple[str, str, frozenset[str]]]:
    """(where, name of the error, its keywords) of each place that makes an error."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                keywords = [keyword.arg for keyword in node.keywords]
                if None not in keywords:  # else the fields are in a dict
                    where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                    yield where, node.func.id, frozenset(str(keyword) for keyword in keywords)


def fields(error: type[CkptError]) -> frozenset[str]:
    return frozenset(name.split(".")[0] for _, name, _, _ in string.Formatter().parse(error.template) if name)


def test_the_calls_are_found() -> None:
    assert len(calls()) > 100
    assert {name for _, name, _ in calls()} <= ERRORS.keys()


def test_an_error_is_raised_with_the_fields_that_its_message_needs() -> None:
    missing = {f"{where} {name}": fields(ERRORS[name]) - given for where, name, given in calls()}
    assert {call: names for call, names in missing.items() if names} == {}


def test_no_error_is_declared_that_nothing_raises() -> None:
    """Nor catches, nor is the base of another one."""
    text = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    assert not [name for name in ERRORS if text.count(name) < 2]


def test_an_error_stands_beside_what_raises_it() -> None:
    """Other modules may raise it, too. Not checked: the root's errors, bases, and errors made by a choice of two."""
    made: dict[str, set[str]] = {}
    for where, name, _ in calls():
        made.setdefault(name, set()).add(str(Path(where.partition(":")[0]).parent))
    homes = {name: str(Path(*ERRORS[name].__module__.split(".")[1:]).parent) for name in made}
    apart = {
        name: folders
        for name, folders in made.items()
        if homes[name] != "." and not any(folder.split("/")[0] == homes[name].split("/")[0] for folder in folders)
    }
    assert apart == {}
