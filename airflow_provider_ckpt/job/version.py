"""Another version of a job, whose functions operators of the running one may be given: loaded anew with every call,
and beside all that is imported already."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from types import ModuleType

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.loading import (
    check_job,
    import_error,
    no_module,
    no_source,
    parts_of,
    path_of,
)
from airflow_provider_ckpt.job.module_origins import is_foreign
from airflow_provider_ckpt.job.module_space import ModuleSpace
from airflow_provider_ckpt.job.params import Params, giving


@dataclass(frozen=True)
class Version:
    """``package``: the functions of all modules below it are pickled by value, as no executor can import them;
    ``digest``: of the code that was read, that of the modules that came with it included; ``first_digest``: as the
    first releases that had one worked it out. ``forget``: takes its modules back, if nobody uses them."""

    job: Job
    package: ModuleType
    digest: str
    first_digest: str
    forget: Callable[[], None]

    def is_of(self, digest: str | None) -> bool:
        """Whether it is what was read with that digest; None: any is."""
        return digest in (None, self.digest, self.first_digest)


def load_version(
    reference: str, params: Mapping[str, str] | None = None, check: Callable[[str], None] | None = None
) -> Version:
    """Load another version of a job beside the modules that are imported already.

    An import in a file means what lies in the folder of that file. An import in a module means what its package has.

    Args:
        check: see :class:`ModuleSpace`.

    Raises what :func:`~.loading.load_job` raises.
    """
    target, name, from_file = parts_of(reference)
    given = Params(params)
    path = path_of(reference, target) if from_file else None
    if path is not None and not path.endswith(".py"):
        raise no_source(reference)
    space = _of_package(reference, target, check) if path is None else _of_folder(os.path.dirname(path), check)
    with space.opened(), giving(given):
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
    return Version(getattr(module, name), space.package, space.digest(), space.digest_of_sources(), space.close)


def _of_folder(folder: str, check: Callable[[str], None] | None) -> ModuleSpace:
    return ModuleSpace([folder], owned_by(folder), check)


def owned_by(folder: str) -> Callable[[str], bool]:
    """Whether a module or package, by its name without a dot, is a job file's own that lies in ``folder``. As when a
    file is run as a script, its folder comes first, but for what Python itself has."""

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
        elsewhere = PathFinder.find_spec(name)  # a folder without __init__.py gives way to a package of its name
        return elsewhere is None or elsewhere.loader is None

    return owns


def _of_package(reference: str, target: str, check: Callable[[str], None] | None) -> ModuleSpace:
    package = target.partition(".")[0]
    folders = [entry for entry in sys.path if PathFinder.find_spec(package, [entry or os.getcwd()]) is not None]
    if not folders:
        raise no_module(reference, package)
    return ModuleSpace([entry or os.getcwd() for entry in folders], lambda name: name == package, check)
