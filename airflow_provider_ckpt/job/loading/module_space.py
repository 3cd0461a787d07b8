"""Modules of another version of a job, loaded under their own names next to the running version (R21).

Python has one module for each name, and both versions use the same names for their helpers. So the helpers are loaded
below an artificial package, and ``import helpers`` in them means the module of that package. Functions are pickled by
value for executors, because executors could not import such names.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from airflow_provider_ckpt.job.loading.syntax import digest_of

PREFIX = "_ckpt_logic_"
_NUMBERS = itertools.count(1)


class ModuleSpace(MetaPathFinder):
    """The artificial package of one version of a job, and the finder that imports its modules.

    Args:
        folders: Folders of the version's modules, as entries of ``sys.path``.
        owns: Returns True if a top-level module or package belongs to the version. All others are imported as usual.
        check: Called with the real path of each file of the version before the file is read. Raises to refuse the file.
            If it is None, every file is accepted.
    """

    def __init__(
        self, folders: Sequence[str], owns: Callable[[str], bool], check: Callable[[str], None] | None = None
    ) -> None:
        self.check = check
        self.name = f"{PREFIX}{next(_NUMBERS)}"
        self.owns = owns
        self._sources: dict[str, str] = {}
        self.package = ModuleType(self.name)
        self.package.__path__ = list(folders)
        self.package.__package__ = self.name

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Make the version's modules importable until :meth:`close`. An error in the block removes them."""
        importlib.invalidate_caches()
        sys.modules[self.name] = self.package
        sys.meta_path.insert(0, self)
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the version's modules from memory. None of their functions may be in use."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name in [module for module in list(sys.modules) if f"{module}.".startswith(f"{self.name}.")]:
            sys.modules.pop(name, None)

    def digest(self) -> str:
        """Return a digest of the version's modules that are loaded, without comments, docstrings and layout."""
        hasher = hashlib.sha256()
        for name, source in sorted(self._sources.items()):
            hasher.update(f"{name}\0{digest_of([ast.parse(source)])}\0".encode("utf-8", "surrogatepass"))
        return hasher.hexdigest()[:16]

    def run_file(self, path: str, stem: str) -> ModuleType:
        """Run a file and return its module, under the name by which its helpers would import the file."""
        name = f"{self.name}.{re.sub(r'[^0-9A-Za-z_]', '_', stem)}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None  # its name ends in .py
        assert spec.loader is not None
        spec.loader = _SourceLoader(self, spec.loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def run_module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.name}.{name}")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{self.name}."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None:
            return None
        if spec.loader is None:  # a folder without __init__.py
            spec.submodule_search_locations = list(spec.submodule_search_locations or ())
            spec.loader = _NoSource()
        else:
            spec.loader = _SourceLoader(self, spec.loader)
        return spec

    def compile(self, name: str, source: str, origin: str) -> Any:
        self._sources[name.removeprefix(f"{self.name}.")] = source
        tree = _Imports(self).visit(ast.parse(source, filename=origin))
        return compile(ast.fix_missing_locations(tree), origin, "exec", dont_inherit=True)


class _NoSource(Loader):
    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        _remove_loader(module)


class _SourceLoader(Loader):
    """Loader that reads the current source, because compiled files may be older and may import other modules."""

    def __init__(self, space: ModuleSpace, loader: Any) -> None:
        self._space, self._loader = space, loader

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        origin = getattr(module, "__file__", None) or name
        source = self._source(name, origin)
        if source is None:
            raise ImportError(f"{origin} is no Python source, and cannot be loaded next to the running job")
        code = self._space.compile(name, source, origin)
        _remove_loader(module)
        exec(code, module.__dict__)

    def _source(self, name: str, origin: str) -> str | None:
        """Return the source of a module; None if its loader has no source.

        The real path is checked and then read, because a link may change after the check.
        """
        path = os.path.realpath(origin)
        if self._space.check is not None:
            self._space.check(path)
        if path.endswith(".py") and os.path.isfile(path):
            with open(path, "rb") as file:
                return importlib.util.decode_source(file.read())
        get_source = getattr(self._loader, "get_source", None)
        return None if get_source is None else get_source(name)


def _remove_loader(module: ModuleType) -> None:
    """Remove the loader. It would be pickled with the module for executors, which do not have the loader's class."""
    spec = module.__spec__
    module.__loader__ = None
    module.__spec__ = None if spec is None else ModuleSpec(spec.name, None, is_package=hasattr(module, "__path__"))


class _Imports(ast.NodeTransformer):
    """Rewriter of ``import helpers`` to ``from _ckpt_logic_1 import helpers``, everywhere in the source."""

    def __init__(self, space: ModuleSpace) -> None:
        self._space = space

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        imports: list[ast.stmt] = []
        for alias in node.names:
            top, dot, _ = alias.name.partition(".")
            if not self._space.owns(top):
                imports.append(ast.Import([alias]))
            elif not dot:
                imports.append(ast.ImportFrom(self._space.name, [ast.alias(top, alias.asname)], 0))
            elif alias.asname:
                imports.append(ast.Import([ast.alias(f"{self._space.name}.{alias.name}", alias.asname)]))
            else:
                parent, _, last = f"{self._space.name}.{alias.name}".rpartition(".")
                imports.append(ast.ImportFrom(parent, [ast.alias(last, "_ckpt_imported")], 0))
                imports.append(ast.ImportFrom(self._space.name, [ast.alias(top, None)], 0))
        return [ast.copy_location(statement, node) for statement in imports]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        if node.level or node.module is None or not self._space.owns(node.module.partition(".")[0]):
            return node
        return ast.copy_location(ast.ImportFrom(f"{self._space.name}.{node.module}", node.names, 0), node)
