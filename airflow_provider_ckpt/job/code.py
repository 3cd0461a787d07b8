"""The code of a job that was loaded: of its file, and of what that imports from its own folder or package."""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.loading import LoadedJob, parts_of
from airflow_provider_ckpt.job.syntax import digest_of, without_docstring
from airflow_provider_ckpt.job.version import owned_by
from airflow_provider_ckpt.model.job_code import WITHOUT_SOURCE, JobCode

_UNREADABLE = (ImportError, OSError, SyntaxError, ValueError)


def code_of(loaded: LoadedJob, reference: str) -> JobCode | None:
    """``loaded``: from ``reference``, just now. None: there is no source to be read. What is imported is followed by
    what is written, not by what has run: a module that a function imports when it is called counts, one whose name is
    worked out does not."""
    return _code(loaded.module.__spec__, loaded.job, reference)


def code_of_version(job: Job, reference: str) -> JobCode | None:
    """Of one that was loaded beside what is imported already: its modules do not say any more where they come from."""
    target, _, from_file = parts_of(reference)
    try:
        if from_file:
            path = os.path.realpath(target)
            spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
        else:
            spec = importlib.util.find_spec(target)
    except _UNREADABLE:
        return None
    return _code(spec, job, reference)


def _code(spec: ModuleSpec | None, job: Job, reference: str) -> JobCode | None:
    tree = None if spec is None else _tree(spec)
    if spec is None or tree is None:
        return None
    defined = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef) and one.decorator_list}
    names = {uid: getattr(one.function, "__name__", "") for uid, one in job.operators.items()}
    own = {uid: defined[name] for uid, name in names.items() if name in defined}
    rest = [one for one in without_docstring(tree.body) if one not in own.values()]
    functions = {uid: digest_of([one]) for uid, one in own.items()}
    return JobCode(digest_of(rest), functions, _Followed(reference).modules(tree, spec.parent or ""))


class _Followed:
    """Imports of the job's own modules, from one to the next."""

    def __init__(self, reference: str) -> None:
        target, _, from_file = parts_of(reference)
        folder, package = os.path.dirname(os.path.realpath(target)), target.partition(".")[0]
        beside = owned_by(folder) if from_file else lambda name: False
        if from_file:
            above, package = _package_around(folder)
        self._owns: Callable[[str], bool] = lambda name: name == package or beside(name)
        self._path = [folder, above] if from_file else None
        self._specs: dict[str, ModuleSpec | None] = {}

    def modules(self, tree: ast.Module, package: str) -> dict[str, str]:
        found: dict[str, str] = {}
        waiting = [*_imported(tree, package)]
        while waiting:
            name = waiting.pop()
            parent = name.rpartition(".")[0]
            if name in self._specs or not self._owns(name.partition(".")[0]):
                continue
            if parent and parent not in self._specs:
                waiting += [name, parent]
                continue
            spec = self._specs[name] = self._spec(name, self._specs.get(parent))
            of_module = None if spec is None else _tree(spec)
            if spec is not None:
                found[name] = WITHOUT_SOURCE if of_module is None else digest_of([of_module])
            if spec is not None and of_module is not None:
                waiting += _imported(of_module, spec.parent or "")
        return found

    def _spec(self, name: str, parent: ModuleSpec | None) -> ModuleSpec | None:
        """None: it is no module, but something in one."""
        if "." in name and (parent is None or parent.submodule_search_locations is None):
            return None
        try:
            return PathFinder.find_spec(
                name, self._path if parent is None else [*(parent.submodule_search_locations or ())]
            )
        except _UNREADABLE:
            return None


def _package_around(folder: str) -> tuple[str, str]:
    """Where the package lies that a file in ``folder`` is in, and its name: a file imports from it, too. The name is
    empty if there is none."""
    name = ""
    while folder != os.sep and os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
    return folder, name


def _tree(spec: ModuleSpec) -> ast.Module | None:
    get_source = getattr(spec.loader, "get_source", None)
    try:
        source = None if get_source is None else get_source(spec.name)
        return None if source is None else ast.parse(source)
    except _UNREADABLE:
        return None


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    """Of ``from a import b`` both ``a`` and ``a.b``, which may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = f"{'.' * node.level}{node.module or ''}"
            try:
                full = importlib.util.resolve_name(name, package)
            except ImportError:
                continue
            yield full
            yield from (f"{full}.{alias.name}" for alias in node.names)
