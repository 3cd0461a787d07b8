"""Failures of Python workers that lack code or have an unfit Python. Every retry would fail in the same way."""

from __future__ import annotations

import re

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.spark.task.causes import find_cause, jvm_text
from airflow_provider_ckpt.spark.task.errors import ExecutorModuleError, ExecutorPythonError

_IN_WORKER = re.compile(r"org\.apache\.spark\.api\.python\.|An exception was thrown from the Python worker")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<module>[^'\n]+)'")
_NO_NAME = re.compile(r"ImportError: cannot import name '[^'\n]+' from '(?P<module>[^'\n]+)'")
_OLD_MODULE = re.compile(r"AttributeError: Can't get attribute '[^'\n]+' on <module '(?P<module>[^'\n]+)'")
_PACKAGE = re.compile(r"\[PACKAGE_NOT_INSTALLED\] (?P<problem>[^\n]+)")
_VERSION = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\] Python in worker has different version: (?P<worker>[\d.]+) than that in driver: "
    r"(?P<driver>[\d.]+)"
)
_PROGRAM = re.compile(r'java\.io\.IOException: Cannot run program "(?P<program>[^"\n]+)": (?P<why>error=\d+, [^\n]+)')


def lacks_code(vertex: str, error: BaseException) -> CkptError | None:
    """Return the error for a Python worker that cannot run the job's functions; None for any other failure.

    Args:
        vertex: its query failed.
        error: raised by Spark.
    """
    text = jvm_text(error)
    program = _PROGRAM.search(text)
    if program is not None and "PythonWorkerFactory" in text:
        return ExecutorPythonError(vertex=vertex, problem=f"{program['program']} does not start ({program['why']})")
    if _IN_WORKER.search(text) is None:
        return None
    cause = find_cause(error).message
    for pattern in (_NO_MODULE, _NO_NAME, _OLD_MODULE):
        if found := pattern.match(cause):
            return ExecutorModuleError(vertex=vertex, module=found["module"])
    if found := _PACKAGE.search(cause):
        return ExecutorPythonError(vertex=vertex, problem=found["problem"].rstrip("."))
    if found := _VERSION.search(cause):
        problem = f"it is Python {found['worker']}, and the driver's is {found['driver']}"
        return ExecutorPythonError(vertex=vertex, problem=problem)
    return None
