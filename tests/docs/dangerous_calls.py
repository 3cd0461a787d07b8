"""Calls of the package that load code, start a process, send a signal or delete something."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.docs.examples import ROOT

PACKAGE = ROOT / "airflow_provider_ckpt"
_ANY = "*"
_KINDS: dict[str, dict[str, set[str]]] = {
    "code": {
        _ANY: {"import_module", "exec_module", "load_module", "run_path", "run_module", "CDLL", "addPyFile"},
        "": {"exec", "eval", "compile", "__import__"},
        "pickle": {"load", "loads"},
        "cloudpickle": {"load", "loads"},
    },
    "process": {
        _ANY: {"Popen", "check_call", "check_output", "popen", "fork", "posix_spawn", "create_subprocess_exec"},
        "subprocess": {"run", "call"},
        "os": {"system", "execv", "execve", "execvp", "execvpe", "spawnv", "spawnve"},
        "multiprocessing": {"Process", "Pool"},
    },
    "signal": {_ANY: {"kill", "killpg", "terminate", "send_signal", "raise_signal", "pthread_kill"}},
    "deletion": {
        _ANY: {"rmtree", "unlink", "rmdir", "removedirs", "rm", "rm_file", "_rm", "delete_file", "delete_object"},
        "os": {"remove"},
    },
}
"""Kind -> text before the dot (nothing, or anything) -> names of calls."""
_IN_SINKS = {"delete", "delete_tree", "collect_temporary"}
"""Verbs of a storage. A sink's storage is not the storage of the root."""


@dataclass(frozen=True, order=True)
class Place:
    """A function that makes such a call. ``file``: below the package."""

    file: str
    function: str
    kind: str


def places() -> set[Place]:
    """Return each function of the package that makes such a call."""
    dangerous = set[Place]()
    for path in PACKAGE.rglob("*.py"):
        dangerous |= set(places_in(ast.parse(path.read_text()), path.relative_to(PACKAGE).as_posix()))
    return dangerous


def places_in(tree: ast.AST, file: str, function: str = "") -> Iterator[Place]:
    """Yield the places of one file."""
    for node in ast.iter_child_nodes(tree):
        name = function
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{function}.{node.name}" if function else node.name
        if isinstance(node, ast.Call) and (kind := _kind(node.func, in_sink=file.startswith("sinks/"))):
            yield Place(file, function or "(module)", kind)
        yield from places_in(node, file, name)


def _kind(called: ast.expr, *, in_sink: bool) -> str | None:
    before, name = _split(called)
    if in_sink and before and name in _IN_SINKS:
        return "deletion"
    for kind, calls in _KINDS.items():
        if name in calls.get(_ANY, ()) or name in calls.get(before, ()):
            return kind
    return None


def _split(called: ast.expr) -> tuple[str, str]:
    if isinstance(called, ast.Name):
        return "", called.id
    if isinstance(called, ast.Attribute):
        return ast.unparse(called.value).rpartition(".")[2], called.attr
    return "", ""
