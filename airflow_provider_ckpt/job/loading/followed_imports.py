"""Imports of a job's own modules, followed in the source from one module to the next."""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder

from airflow_provider_ckpt.job.loading.loading import parts_of
from airflow_provider_ckpt.job.loading.version import owned_by

UNREADABLE = (ImportError, OSError, SyntaxError, ValueError)


class FollowedImports:
    """Modules that a job imports from the folder of its file, or from its package.

    The source is parsed, not run. So imports inside functions are found, and imports of computed names are not.
    """

    def __init__(self, reference: str) -> None:
        target, _, from_file = parts_of(reference)
        folder, package = os.path.dirname(os.path.realpath(target)), target.partition(".")[0]
        is_in_folder = owned_by(folder) if from_file else lambda name: False
        if from_file:
            path_entry, package = package_around(folder)
        self.owns: Callable[[str], bool] = lambda name: name == package or is_in_folder(name)
        self._path = [folder, path_entry] if from_file else None
        self._specs: dict[str, ModuleSpec | None] = {}

    def specs(self, tree: ast.Module, package: str) -> dict[str, ModuleSpec]:
        """Return name -> spec of the own modules that ``tree`` in ``package`` imports, directly or indirectly."""
        waiting = [*imported(tree, package)]
        while waiting:
            name = waiting.pop()
            parent = name.rpartition(".")[0]
            if name in self._specs or not self.owns(name.partition(".")[0]):
                continue
            if parent and parent not in self._specs:
                waiting += [name, parent]
                continue
            spec = self._specs[name] = self._spec(name, self._specs.get(parent))
            module_tree = None if spec is None else tree_of(spec)
            if spec is not None and module_tree is not None:
                waiting += imported(module_tree, spec.parent or "")
        return {name: spec for name, spec in self._specs.items() if spec is not None}

    def _spec(self, name: str, parent: ModuleSpec | None) -> ModuleSpec | None:
        """Return the spec of a module. None if ``name`` is no module, but a function in a module, for example."""
        if "." in name and (parent is None or parent.submodule_search_locations is None):
            return None
        try:
            return PathFinder.find_spec(
                name, self._path if parent is None else [*(parent.submodule_search_locations or ())]
            )
        except UNREADABLE:
            return None


def tree_of(spec: ModuleSpec) -> ast.Module | None:
    """Return the syntax tree of a module; None if its source cannot be read."""
    get_source = getattr(spec.loader, "get_source", None)
    try:
        source = None if get_source is None else get_source(spec.name)
        return None if source is None else ast.parse(source)
    except UNREADABLE:
        return None


def imported(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield the names that ``tree`` imports. ``from a import b`` yields ``a`` and ``a.b``, which may be a module."""
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


def package_around(folder: str) -> tuple[str, str]:
    """Return (parent folder, name) of the top-level package around ``folder``. Without a package the name is empty."""
    name = ""
    while folder != os.sep and os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
    return folder, name
