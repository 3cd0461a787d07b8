"""Files of imported modules, and imported modules that have the name of a job's own module."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from types import ModuleType

_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def is_foreign(filename: str) -> bool:
    installed = {"site-packages", "dist-packages"}.intersection(filename.replace(os.sep, "/").split("/"))
    return bool(installed) or filename.startswith((_PACKAGE, _STDLIB, "<frozen"))


def origin_of(module: ModuleType) -> str:
    """Return the file of a module, or the folder of a namespace package. Empty for a built-in module."""
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    return os.path.realpath(path) if path else ""


@contextmanager
def without_namesakes(folder: str) -> Iterator[None]:
    """Let imports in the block find the modules of ``folder``, even if modules of the same name are imported already.

    A Dag file, for example, may have imported such a module. After the block that module is restored, unless the block
    has imported another module of the same name. After an error all such modules are restored. Installed packages stay,
    because some cannot be imported twice. ``folder`` must be on ``sys.path`` and end with a separator.
    """
    namesakes = {name for name, module in list(sys.modules.items()) if _is_namesake(name, module, folder)}
    removed = {name: module for name, module in list(sys.modules.items()) if name.partition(".")[0] in namesakes}
    for name in removed:
        del sys.modules[name]
    try:
        yield
    except BaseException:
        sys.modules.update(removed)
        raise
    for name, module in removed.items():
        if sys.modules.get(name.partition(".")[0]) in (None, removed.get(name.partition(".")[0])):
            sys.modules[name] = module


def _is_namesake(name: str, module: ModuleType, folder: str) -> bool:
    if "." in name or name == "__main__" or not isinstance(module, ModuleType):
        return False
    origin = origin_of(module)
    files = [os.path.join(folder, f"{name}.py"), os.path.join(folder, name, "__init__.py")]
    if not origin or origin in files or is_foreign(origin) or not any(map(os.path.isfile, files)):
        return False
    spec = PathFinder.find_spec(name)
    return spec is not None and bool(spec.origin) and os.path.realpath(str(spec.origin)) in files
