"""Where imported modules came from, and those that a job's file would take for its own."""

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
    """The file of a module, or the folder of a namespace package; empty for a built-in one."""
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    return os.path.realpath(path) if path else ""


@contextmanager
def without_namesakes(folder: str) -> Iterator[None]:
    """In the block, what a file in ``folder`` imports by the name of a file beside it is that file: not a module of the
    same name that somebody, such as a Dag file, has imported from elsewhere. What is not imported in the block, and
    after an error everything, is as it was. Installed packages stay: some cannot be imported twice.

    ``folder``: on ``sys.path``, with a separator behind it.
    """
    tops = {name for name, module in list(sys.modules.items()) if _is_namesake(name, module, folder)}
    aside = {name: module for name, module in list(sys.modules.items()) if name.partition(".")[0] in tops}
    for name in aside:
        del sys.modules[name]
    try:
        yield
    except BaseException:
        sys.modules.update(aside)
        raise
    for name, module in aside.items():
        if sys.modules.get(name.partition(".")[0]) in (None, aside.get(name.partition(".")[0])):
            sys.modules[name] = module


def _is_namesake(name: str, module: ModuleType, folder: str) -> bool:
    if "." in name or name == "__main__" or not isinstance(module, ModuleType):
        return False
    origin = origin_of(module)
    own = [os.path.join(folder, f"{name}.py"), os.path.join(folder, name, "__init__.py")]
    if not origin or origin in own or is_foreign(origin) or not any(map(os.path.isfile, own)):
        return False
    found = PathFinder.find_spec(name)
    return found is not None and bool(found.origin) and os.path.realpath(str(found.origin)) in own
