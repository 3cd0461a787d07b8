"""Shipping of the job's own modules to its Python workers."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from pyspark import SparkContext, SparkFiles

from airflow_provider_ckpt.model.own_modules import OwnModules
from airflow_provider_ckpt.packaging import package_zip, write_zip

_LIBRARY = "airflow_provider_ckpt-"


def ship_modules(context: SparkContext, modules: OwnModules | None) -> None:
    """Make the job's own modules importable in its Python workers. Call this function before any function of the job.

    Python workers of a local master import the modules from their folders. Executors get a zip of the modules. The zip
    leaves out modules and packages in ``py_files``. In cluster mode, or with ``spark.executorEnv.PYTHONPATH``, the user
    provides all modules, and no zip is made.
    """
    if modules is None or not modules.sources:
        return
    includes = _includes(context)
    if str(context.master).startswith("local"):
        includes += [root for root in reversed(modules.roots) if root not in includes]
    elif not _is_provided(context):
        _send(context, modules, includes)


def _includes(context: SparkContext) -> list[str]:
    """Return PySpark's ``sys.path`` entries for Python workers: absolute, or relative to the folder of added files."""
    includes: list[str] = getattr(context, "_python_includes")  # noqa: B009
    return includes


def _is_provided(context: SparkContext) -> bool:
    conf = context.getConf()
    return (
        conf.get("spark.submit.deployMode", "client") == "cluster"
        or conf.get("spark.kubernetes.submitInDriver", "false") == "true"
        or conf.get("spark.executorEnv.PYTHONPATH") is not None
    )


def _send(context: SparkContext, modules: OwnModules, includes: list[str]) -> None:
    importlib.invalidate_caches()
    shipped_elsewhere = [name for name in includes if not name.startswith("ckpt-modules-")]
    modules = modules.without(frozenset(name for name in modules.names if _is_in(name, shipped_elsewhere)))
    if not modules.sources:
        return
    folder = Path(str(getattr(context, "_temp_dir")))  # noqa: B009 - it lives as long as the application
    _add(context, write_zip(folder, "ckpt-modules", sorted(modules.sources.items())), includes)
    if modules.uses_library and not any(name.startswith(_LIBRARY) for name in includes):
        _add(context, package_zip(), includes)


def _is_in(name: str, files: list[str]) -> bool:
    """Return whether any of ``files``, which the user has given to executors, contains the module ``name``."""
    folder = SparkFiles.getRootDirectory()
    return PathFinder.find_spec(name, [folder, *(os.path.join(folder, file) for file in files)]) is not None


def _add(context: SparkContext, path: Path, includes: list[str]) -> None:
    if path.name in includes:
        return
    path_before = list(sys.path)
    context.addPyFile(str(path))
    sys.path[:] = path_before  # this process has the modules, and reads new versions of them from their folder
