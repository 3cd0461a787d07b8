"""Names in docstrings, and names that tests read by a string, exist.

A script that renames functions and modules overlooks them.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.package.test_layers import FILES, MODULES, module_of, nodes

TESTS = Path(__file__).parents[1]
_REFERENCE = re.compile(r":(?:class|func|meth|mod|attr|exc):`~?(\.+)([\w.]+)`")
_OF_CLASS = re.compile(r":(?:meth|attr):`~?(?:\.*[\w.]*\.)?(\w+)\.(\w+)`")
_SECTION = re.compile(r"\bArgs:\n((?: .*\n|\n)*)")
_ARGUMENT = re.compile(r"^    \*{0,2}(\w+):|:param (\w+):", re.MULTILINE)
_TYPE = re.compile(r'"type": \\*"([A-Z]\w+)')
_MADE_UP = {"Reboot", "Lunch", "Teleported", "Sing", "Rescaled", "Point"}
"""Types of records that exist only in tests of readers."""
_OF_PYTEST = {"fixturenames", "pytestmark"}


def test_a_reference_in_a_docstring_exists() -> None:
    references = [(path, dots, name) for path in FILES for dots, name in _REFERENCE.findall(path.read_text("utf-8"))]
    assert len(references) > 20
    assert [f"{path}: {dots}{name}" for path, dots, name in references if not _resolves(path, dots, name)] == []


def _resolves(path: Path, dots: str, name: str) -> bool:
    """Resolve the name as an import does. After a single dot it may also be a name of the module itself."""
    if dots == "." and name.partition(".")[0] in _names(path):
        return True
    folder = module_of(path.parent / "__init__.py").split(".")
    whole = [*folder[: len(folder) + 1 - len(dots)], *name.split(".")]
    modules = (".".join(whole[:end]) for end in range(len(whole), 1, -1))
    module = next((candidate for candidate in modules if candidate in MODULES), None)
    return module is not None and set(whole[module.count(".") + 1 :]) <= _names(MODULES[module])


def test_a_member_in_a_docstring_is_one_of_its_class() -> None:
    found = [(path, *member) for path in FILES for member in _OF_CLASS.findall(path.read_text("utf-8"))]
    assert len(found) > 50
    assert [f"{path}: {of}.{name}" for path, of, name in found if name not in _members(of)] == []


@cache
def _members(of: str) -> set[str]:
    """Return the names in the classes called ``of`` and in their base classes."""
    classes = _classes().get(of, [])
    bases = {name for node in classes for base in node.bases for name in _names_in(ast.walk(base))}
    return set().union(*(_names_in(ast.walk(node)) for node in classes), *map(_members, bases - {of}))


@cache
def _classes() -> dict[str, list[ast.ClassDef]]:
    """Return name → the classes of this name."""
    found: dict[str, list[ast.ClassDef]] = {}
    for node in (node for path in FILES for node in nodes(path) if isinstance(node, ast.ClassDef)):
        found.setdefault(node.name, []).append(node)
    return found


@cache
def _names(path: Path) -> set[str]:
    """Return the names that a module defines or uses."""
    return _names_in(nodes(path))


def _names_in(tree: Iterable[ast.AST]) -> set[str]:
    names = set[str]()
    for node in tree:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                names.add(name)
    return names


def test_a_docstring_describes_parameters_that_exist() -> None:
    arguments = [
        (f"{path}:{node.lineno} {name}", name in parameters)
        for path in FILES
        for node, parameters in _documented(path)
        for name in _arguments(ast.get_docstring(node, clean=False) or "")
    ]
    assert len(arguments) > 500
    assert [where for where, exists in arguments if not exists] == []


def _documented(path: Path) -> Iterator[tuple[ast.FunctionDef | ast.ClassDef, set[str]]]:
    """Yield each function and class with the names of its parameters, except classes that may inherit some."""
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef):
            yield node, {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        elif isinstance(node, ast.ClassDef) and not node.bases:
            makes = [
                member for member in node.body if isinstance(member, ast.FunctionDef) and member.name == "__init__"
            ]
            given = {
                argument.arg for make in makes for argument in ast.walk(make.args) if isinstance(argument, ast.arg)
            }
            fields = {ast.unparse(field.target) for field in node.body if isinstance(field, ast.AnnAssign)}
            yield node, given | fields


def _arguments(docstring: str) -> list[str]:
    if "Args:" not in docstring and ":param" not in docstring:
        return []
    text = inspect.cleandoc(docstring) + "\n"
    sections = [*_SECTION.findall(text), *re.findall(r":param .*", text)]
    return [first or second for section in sections for first, second in _ARGUMENT.findall(section)]


def test_records_and_attributes_that_tests_match_by_name_exist() -> None:
    """A hook that matches a record which does not exist never runs, so its test cannot fail."""
    existing = set[str]().union(*map(_names, FILES), _MADE_UP, _OF_PYTEST)
    files = [path for path in sorted(TESTS.rglob("*.py")) if path != Path(__file__)]
    types = [(path, name) for path in files for name in _TYPE.findall(path.read_text("utf-8"))]
    attributes = [(path, name) for path in files for name in _read_by_string(path)]
    assert len(types) > 50
    assert attributes
    assert [f"{path}: {name}" for path, name in (*types, *attributes) if name not in existing] == []


def _read_by_string(path: Path) -> Iterator[str]:
    """Yield names in ``getattr(of, "name", default)``. Without a default, a wrong name raises."""
    if "getattr(" not in path.read_text("utf-8"):
        return
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), _]):
                yield name
