"""Source of the modules that a job imports from its file's folder or package. Executors may not have that folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

from airflow_provider_ckpt.job.loading.followed_imports import FollowedImports, imported, tree_of
from airflow_provider_ckpt.job.loading.loading import LoadedJob, parts_of
from airflow_provider_ckpt.job.loading.module_origins import is_foreign
from airflow_provider_ckpt.model.own_modules import OwnModules

_LIBRARY = __name__.partition(".")[0]


def own_modules(loaded: LoadedJob, reference: str) -> OwnModules:
    """Return the own modules of a job that was just loaded from ``reference``.

    A module is included if an import statement names it, even inside a function, or if it has been imported. Installed
    packages, compiled modules and files of other kinds are left out.
    """
    specs = {name: spec for name, spec in _specs(loaded, reference).items() if _is_own(spec)}
    sources, roots, uses_library = dict[str, bytes](), list[str](), False
    for name, spec in sorted(specs.items()):
        content = _content(spec)
        if content is None:
            continue
        sources[_path(name, spec)] = content
        roots.append(_root(name, spec))
        tree = tree_of(spec)
        uses_library = uses_library or (tree is not None and _imports_library(imported(tree, spec.parent or "")))
    return OwnModules(tuple(dict.fromkeys(roots)), sources, uses_library)


def _specs(loaded: LoadedJob, reference: str) -> dict[str, ModuleSpec]:
    target, _, from_file = parts_of(reference)
    followed, spec = FollowedImports(reference), loaded.module.__spec__
    tree = None if spec is None else tree_of(spec)
    if spec is None or tree is None:
        return {}
    specs = followed.specs(tree, spec.parent or "")
    for name, module in list(sys.modules.items()):
        module_spec = getattr(module, "__spec__", None)
        if isinstance(module_spec, ModuleSpec) and module_spec.name == name and followed.owns(name.partition(".")[0]):
            specs[name] = module_spec
    if not from_file:
        specs[target] = spec
    return specs


def _is_own(spec: ModuleSpec) -> bool:
    places = [spec.origin] if spec.origin is not None else [*(spec.submodule_search_locations or ())]
    return not any(is_foreign(os.path.realpath(place) + os.sep) for place in places)


def _content(spec: ModuleSpec) -> bytes | None:
    if spec.submodule_search_locations is not None and spec.origin is None:
        return b""
    get_data = getattr(spec.loader, "get_data", None)
    if get_data is None or not str(spec.origin).endswith(".py"):
        return None
    try:
        return bytes(get_data(spec.origin))
    except OSError:
        return None


def _path(name: str, spec: ModuleSpec) -> str:
    path = name.replace(".", "/")
    if spec.submodule_search_locations is None:
        return f"{path}.py"
    return f"{path}/" if spec.origin is None else f"{path}/__init__.py"


def _root(name: str, spec: ModuleSpec) -> str:
    """Return the entry of ``sys.path`` that contains the module: a folder or a zip file."""
    if spec.submodule_search_locations is None:
        place = os.path.dirname(str(spec.origin))
    else:
        place = os.path.dirname(next(iter(spec.submodule_search_locations)))
    for _ in range(name.count(".")):
        place = os.path.dirname(place)
    return os.path.abspath(place)


def _imports_library(names: Iterator[str]) -> bool:
    return any(name.partition(".")[0] == _LIBRARY for name in names)
