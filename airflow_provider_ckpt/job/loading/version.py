"""The loading of another version of a job, whose functions a running job can adopt."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from types import ModuleType

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.loading.loading import (
    check_job,
    import_error,
    no_module,
    no_source,
    parts_of,
    path_of,
)
from airflow_provider_ckpt.job.loading.module_origins import is_foreign
from airflow_provider_ckpt.job.loading.module_space import ModuleSpace
from airflow_provider_ckpt.job.options.params import Params, giving


@dataclass(frozen=True)
class Version:
    """Another version of a job, loaded next to the running job.

    Args:
        package: Package of the version's modules. Their functions are pickled by value, because no executor can
            import them.
        digest: Digest of the version's code and of the own modules that it has imported.
        forget: Removes the version's modules from memory. None of their functions may be in use.
    """

    job: Job
    package: ModuleType
    digest: str
    forget: Callable[[], None]

    def matches(self, digest: str | None) -> bool:
        """Return True if the version has this digest, or if ``digest`` is None."""
        return digest in (None, self.digest)


def load_version(
    reference: str, params: Mapping[str, str] | None = None, check: Callable[[str], None] | None = None
) -> Version:
    """Load another version of the job next to the modules that are already imported.

    Own modules are imported from the folder of the job's file, or from the package of the job's module. ``check`` is
    passed to :class:`ModuleSpace`.

    Raises the errors of :func:`~.loading.load_job`.
    """
    target, name, from_file = parts_of(reference)
    given = Params(params)
    path = path_of(reference, target) if from_file else None
    if path is not None and not path.endswith(".py"):
        raise no_source(reference)
    space = (
        _space_of_package(reference, target, check) if path is None else _space_of_folder(os.path.dirname(path), check)
    )
    with space.importable(), giving(given):
        try:
            if path is None:
                module = space.run_module(target)
            else:
                module = space.run_file(path, os.path.splitext(os.path.basename(path))[0])
        except CkptError:
            raise
        except (Exception, SystemExit) as error:
            if path is None and isinstance(error, ModuleNotFoundError):
                missing = str(error.name).removeprefix(f"{space.name}.")
                if f"{target}.".startswith(f"{missing}."):
                    raise no_module(reference, missing) from error
            raise import_error(reference, error, "" if path is None else os.path.dirname(path) + os.sep) from error
        check_job(reference, module, name, given)
    return Version(getattr(module, name), space.package, space.digest(), space.close)


def _space_of_folder(folder: str, check: Callable[[str], None] | None) -> ModuleSpace:
    return ModuleSpace([folder], owned_by(folder), check)


def owned_by(folder: str) -> Callable[[str], bool]:
    """Return a function that returns True for a top-level module that belongs to a job's file in ``folder``.

    The folder wins over all modules but Python's own, as when a file is run as a script.
    """

    def owns(name: str) -> bool:
        if name in sys.stdlib_module_names or name in sys.builtin_module_names:
            return False
        spec = PathFinder.find_spec(name, [folder])
        if spec is None:
            return False
        places = [spec.origin] if spec.origin is not None else list(spec.submodule_search_locations or ())
        if any(is_foreign(os.path.realpath(place) + os.sep) for place in places):
            return False
        if spec.loader is not None:
            return True
        elsewhere = PathFinder.find_spec(name)  # a package of the same name wins over a folder without __init__.py
        return elsewhere is None or elsewhere.loader is None

    return owns


def _space_of_package(reference: str, target: str, check: Callable[[str], None] | None) -> ModuleSpace:
    package = target.partition(".")[0]
    folders = [entry for entry in sys.path if PathFinder.find_spec(package, [entry or os.getcwd()]) is not None]
    if not folders:
        raise no_module(reference, package)
    return ModuleSpace([entry or os.getcwd() for entry in folders], lambda name: name == package, check)
