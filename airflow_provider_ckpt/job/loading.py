"""From the reference of a job to the job: "pipelines/orders.py:job" or "package.module:job"."""

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
from airflow_provider_ckpt.job.errors import JobImportError, JobNotFoundError, JobReferenceError, StaleJobError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.module_origins import is_foreign, origin_of, without_namesakes
from airflow_provider_ckpt.job.params import Params, giving
from airflow_provider_ckpt.job.suggestions import did_you_mean, listed

_FORM = 'Write "path/to/file.py:name" or "package.module:name", where name is a Job object.'


@dataclass(frozen=True)
class LoadedJob:
    """A job and the module that defines it.

    ``by_value``: a driver that ships the module's functions to executors must have them pickled by value
    (``pyspark.cloudpickle.register_pickle_by_value(module)``). A file has a name that no executor can import; a
    module that reads parameters can be imported there, but would not be given any.
    """

    job: Job
    module: ModuleType
    from_file: bool

    @property
    def by_value(self) -> bool:
        return self.from_file or bool(self.job.params)


def load_job(reference: str, params: Mapping[str, str] | None = None) -> Job:
    """The job that ``reference`` names. Its code is run; a file's code is run anew with every call, and so is
    that of a module which reads parameters, or is given any. ``params``: what ``job.param`` answers.

    A file's folder is put on ``sys.path``, as when the file is run as a script, and stays there. What lies beside the
    file goes before modules of the same name that were imported from elsewhere.

    Raises :class:`JobReferenceError`: the reference is malformed, or names something that is no Job;
    :class:`JobNotFoundError`: no such file, module or attribute; :class:`JobImportError`: the code raised,
    with its error as the ``__cause__``. An error of this package that the code raised, such as a
    DuplicateUidError, comes as it is. :class:`UnknownParamError`: the code asks for no parameter of a name in
    ``params``; :class:`MissingParamError`: it asks for one that is not there. After an error ``sys.path`` is as
    it was, and ``sys.modules`` has none of the modules that came from the file's folder, or of the module's package.
    """
    return load(reference, params).job


def load(reference: str, params: Mapping[str, str] | None = None) -> LoadedJob:
    """:func:`load_job`, with the module."""
    target, name, from_file = parts_of(reference)
    read = _load_file if from_file else _load_module
    given = Params(params)
    with giving(given):
        module = read(reference, target, name, given)
    return LoadedJob(getattr(module, name), module, from_file)


def parts_of(reference: str) -> tuple[str, str, bool]:
    """File or module, name, and whether it is a file. Raises JobReferenceError."""
    target, _, name = reference.rpartition(":")
    if not target or not name.isidentifier():
        raise JobReferenceError(reference=reference, problem="is not well-formed", hint=_FORM)
    return target, name, target.endswith(".py") or "/" in target or os.sep in target


def path_of(reference: str, target: str) -> str:
    """Of a file. Raises JobNotFoundError."""
    path = os.path.realpath(target)
    if not os.path.isfile(path):
        problem = f"leads to no file: there is none at {path}"
        hint = f"A relative path starts at the working directory, {os.getcwd()}."
        raise JobNotFoundError(reference=reference, problem=problem, hint=hint)
    return path


def file_module_name(path: str) -> str:
    """The name in ``sys.modules`` of a job's file: the same for the same file, and for no other."""
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
    with _cleaning_up(lambda module: origin_of(module).startswith(folder)):
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
    with _cleaning_up(lambda module: module.__name__.partition(".")[0] == package):
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
    """Import the module, anew if it was imported with parameters that may be others now."""
    before = sys.modules.get(target)
    if before is None or not (params.given or any(job.params for job in _jobs(before).values())):
        return importlib.import_module(target)
    del sys.modules[target]
    try:
        return importlib.import_module(target)
    except BaseException:
        sys.modules[target] = before
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
        raise StaleJobError(reference=reference)
    params.seal(reference)


def import_error(reference: str, error: BaseException, folder: str) -> JobImportError:
    said = str(error)
    text = type(error).__name__ + (f": {said}" if said else "")
    return JobImportError(reference=reference, location=_last_user_line(error, folder), error=text)


def _last_user_line(error: BaseException, folder: str) -> str:
    """The innermost line under ``folder`` that is not in an installed package: where the user's own code
    called what failed. Without a folder, the innermost one that is not Python's own."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    lines = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(folder) and not is_foreign(frame.filename)
    ]
    return lines[-1] if lines else "its first line"


@contextmanager
def _cleaning_up(is_users: Callable[[ModuleType], bool]) -> Iterator[None]:
    """On an error, undo ``sys.path`` and forget the user's modules: a second try sees the repaired file.

    Installed packages stay: some, such as numpy, cannot be imported twice.
    """
    path, modules = list(sys.path), dict(sys.modules)
    try:
        yield
    except BaseException:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            new = modules.get(name) is not module
            if new and is_users(module) and not is_foreign(origin_of(module)):
                _put_back(name, modules.get(name))
        raise


def _put_back(name: str, module: ModuleType | None) -> None:
    if module is None:
        del sys.modules[name]
    else:
        sys.modules[name] = module
