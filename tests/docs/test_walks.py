"""docs/walks.md names existing code only."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.examples import ROOT

PAGE = (ROOT / "docs" / "walks.md").read_text("utf-8")
PACKAGE = ROOT / "airflow_provider_ckpt"
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
STEPS = re.findall(r"`([a-z_/]+\.py)`:\s+`([A-Za-z_.]+)`", PAGE)


def names(path: str) -> set[str]:
    """Return the functions, the classes, and the methods as ``Class.method`` under their defining class."""
    defined: set[str] = set()
    for node in ast.parse((PACKAGE / path).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        if isinstance(node, ast.ClassDef):
            defined |= {f"{node.name}.{member.name}" for member in node.body if isinstance(member, FUNCTIONS)}
    return defined


@pytest.mark.parametrize(("path", "name"), STEPS, ids=lambda text: text)
def test_every_step_of_a_walk_names_existing_code(path: str, name: str) -> None:
    assert name in names(path), sorted(names(path))


def test_every_file_of_a_walk_is_named_with_a_function() -> None:
    assert len(STEPS) >= 30
    assert len(re.findall(r"`[a-z_/]+\.py`", PAGE)) == len(STEPS)
