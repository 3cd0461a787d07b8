"""The loading of a job from its reference: "pipelines/orders.py:job" or "package.module:job"."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.errors import InvalidJobError, JobImportError, JobNotFoundError, JobReferenceError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.loading.module_origins import is_foreign, origin_of, without_namesakes
from airflow_provider_ckpt.job.options.params import Params, giving
from airflow_provider_ckpt.job.options.suggestions import did_you_mean, listed

_FORM = 'Write "path/to/file.py:name" or "package.module:name", where name is a Job object.'


@dataclass(frozen=True)
class LoadedJob:
    """A job and the module that defines it."""

    job: Job
    module: ModuleType
    from_file: bool

    @property
    def by_value(self) -> bool:
        """True if a driver must pickle the module's functions by value for executors.

        Executors cannot import a job's file, and would import a module without the values of its parameters.
        """
        return self.from_file or bool(self.job.params)


def load_job(reference: str, params: Mapping[str, str] | None = None) -> Job:
    """Run the code of ``reference`` and return the job that it names. ``params`` has the values for ``job.param``.

    Each call runs the code of a file again, and the code of a module that reads or gets parameters. A file's folder is
    added to ``sys.path`` for good, as when the file is run as a script. Modules in that folder win over modules of the
    same name that were imported from elsewhere.

    An error restores ``sys.path`` and removes the new modules of the file's folder, or of the module's package.

    Raises:
        JobReferenceError: the reference is malformed, or names an object that is no Job.
        JobNotFoundError: there is no such file, module or attribute.
        JobImportError: the code raised an error, which is the ``__cause__``. An error of this package that the code
            raised, such as an InvalidJobError, is raised unchanged.
        BadOptionError: the code does not read a parameter of ``params``.
        InvalidJobError: the code reads a parameter that has no value.
    """
    return load(reference, params).job


def load(reference: str, params: Mapping[str, str] | None = None) -> LoadedJob:
    """Load a job like :func:`load_job`, and return the job with its module."""
    target, name, from_file = parts_of(reference)
    run_code = _load_file if from_file else _load_module
    given = Params(params)
    with giving(given):
        module = run_code(reference, target, name, given)
    return LoadedJob(getattr(module, name), module, from_file)


def parts_of(reference: str) -> tuple[str, str, bool]:
    """Return (file or module, name of the job in it, True if the reference names a file).

    Raises JobReferenceError if the reference is malformed.
    """
    target, _, name = reference.rpartition(":")
    if not target or not name.isidentifier():
        raise JobReferenceError(reference=reference, problem="is not well-formed", hint=_FORM)
    return target, name, target.endswith(".py") or "/" in target or os.sep in target


def path_of(reference: str, target: str) -> str:
    """Return the real path of a file. Raises JobNotFoundError if there is no such file."""
    path = os.path.realpath(target)
    if not os.path.isfile(path):
        problem = f"leads to no file: there is none at {path}"
        hint = f"A relative path starts at the working directory, {os.getcwd()}."
        raise JobNotFoundError(reference=reference, problem=problem, hint=hint)
    return path


def file_module_name(path: str) -> str:
    """Return the name of a job's file in ``sys.modules``. Each file has its own permanent name."""
    full = os.path.realpath(path)
    stem = re.sub(r"\W", "_", os.path.splitext(os.path.basename(full))[0])
    return f"_ckpt_job_{stem}_{hashlib.sha256(full.encode()).hexdigest()[:8]}"


def _load_file(reference: str, target: str, attribute: str, params: Params) -> ModuleType:
    path = path_of(reference, target)
    name = file_module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise no_source(reference)
    folder = os.path.dirname(path) + os.sep
    with _undo_on_error(lambda module: origin_of(module).startswith(folder)):
        if os.path.dirname(path) not in sys.path:
            sys.path.insert(0, os.path.dirname(path))
        importlib.invalidate_caches()
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            with without_namesakes(folder):
                spec.loader.exec_module(module)
        except CkptError:
            raise
        except (Exception, SystemExit) as error:
            raise import_error(reference, error, folder) from error
        check_job(reference, module, attribute, params)
    return module


def _load_module(reference: str, target: str, attribute: str, params: Params) -> ModuleType:
    package = target.partition(".")[0]
    with _undo_on_error(lambda module: module.__name__.partition(".")[0] == package):
        importlib.invalidate_caches()
        try:
            module = _import(target, params)
        except CkptError:
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, ModuleNotFoundError) and f"{target}.".startswith(f"{error.name}."):
                raise no_module(reference, str(error.name)) from error
            raise import_error(reference, error, "") from error
        check_job(reference, module, attribute, params)
    return module


def _import(target: str, params: Params) -> ModuleType:
    """Import the module. Run the code of an imported module again if this run, or a job in it, has parameters."""
    module = sys.modules.get(target)
    if module is None or not (params.given or any(job.params for job in _jobs(module).values())):
        return importlib.import_module(target)
    del sys.modules[target]
    try:
        return importlib.import_module(target)
    except BaseException:
        sys.modules[target] = module
        raise


def no_source(reference: str) -> JobReferenceError:
    problem = "leads to a file that is no Python source"
    return JobReferenceError(reference=reference, problem=problem, hint="Its name must end in .py.")


def no_module(reference: str, name: str) -> JobNotFoundError:
    problem = f"leads to no module: Python finds no {name!r}"
    hint = "Is it installed here, on PYTHONPATH, or among py_files? " + _FORM
    return JobNotFoundError(reference=reference, problem=problem, hint=hint)


def _jobs(module: ModuleType) -> dict[str, Job]:
    return {key: value for key, value in vars(module).items() if isinstance(value, Job)}


def check_job(reference: str, module: ModuleType, name: str, params: Params) -> None:
    jobs = list(_jobs(module))
    hint = f"Its Job objects: {listed(jobs)}."
    if not hasattr(module, name):
        problem = f"leads to no object: {module.__file__} has no {name!r}"
        raise JobNotFoundError(reference=reference, problem=problem, hint=hint + did_you_mean(name, jobs))
    value = getattr(module, name)
    if not isinstance(value, Job):
        problem = f"leads to an object of type {type(value).__name__}, which is no Job"
        raise JobReferenceError(reference=reference, problem=problem, hint=hint)
    if not value.was_given(params) and (params.given or value.params):
        raise InvalidJobError(
            "the job {reference!r} was made by a module that was imported earlier in this process, so the "
            "parameters of this run would not reach it. Define the job in the file or module that the reference "
            "names.",
            reference=reference,
        )
    params.seal(reference)


def import_error(reference: str, error: BaseException, folder: str) -> JobImportError:
    message = str(error)
    text = type(error).__name__ + (f": {message}" if message else "")
    return JobImportError(reference=reference, location=_last_user_line(error, folder), error=text)


def _last_user_line(error: BaseException, folder: str) -> str:
    """Return "file:line" of the innermost user code under ``folder`` in the error's traceback.

    Python's own code and installed packages do not count. An empty ``folder`` means any folder. For a SyntaxError,
    return its own file and line. Without user code in the traceback, return "its first line".
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    lines = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(folder) and not is_foreign(frame.filename)
    ]
    return lines[-1] if lines else "its first line"


@contextmanager
def _undo_on_error(is_users: Callable[[ModuleType], bool]) -> Iterator[None]:
    """Restore ``sys.path`` and remove the user's modules after an error, so that the next load reads a repaired file.

    Installed packages stay, because some, such as numpy, cannot be imported twice.
    """
    path, modules = list(sys.path), dict(sys.modules)
    try:
        yield
    except BaseException:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            new = modules.get(name) is not module
            if new and is_users(module) and not is_foreign(origin_of(module)):
                _restore_module(name, modules.get(name))
        raise


def _restore_module(name: str, module: ModuleType | None) -> None:
    if module is None:
        del sys.modules[name]
    else:
        sys.modules[name] = module
