"""The code of a loaded job: its file, and the modules that the file imports from its own folder or package."""

from __future__ import annotations

import ast
import importlib.util
import os
from importlib.machinery import ModuleSpec

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.loading.followed_imports import UNREADABLE, FollowedImports, tree_of
from airflow_provider_ckpt.job.loading.loading import LoadedJob, parts_of
from airflow_provider_ckpt.job.loading.syntax import digest_of, without_docstring
from airflow_provider_ckpt.model.job_code import WITHOUT_SOURCE, JobCode


def code_of(loaded: LoadedJob, reference: str) -> JobCode | None:
    """Return the code of a job that was just loaded from ``reference``, or None if there is no readable source."""
    return _code(loaded.module.__spec__, loaded.job, reference)


def code_of_version(job: Job, reference: str) -> JobCode | None:
    """Return the code of a version that was loaded next to the running job.

    The source files are read again. None if they cannot be read.
    """
    target, _, from_file = parts_of(reference)
    try:
        if from_file:
            path = os.path.realpath(target)
            spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
        else:
            spec = importlib.util.find_spec(target)
    except UNREADABLE:
        return None
    return _code(spec, job, reference)


def _code(spec: ModuleSpec | None, job: Job, reference: str) -> JobCode | None:
    tree = None if spec is None else tree_of(spec)
    if spec is None or tree is None:
        return None
    defined = {
        statement.name: statement
        for statement in tree.body
        if isinstance(statement, ast.FunctionDef) and statement.decorator_list
    }
    names = {uid: getattr(operator.function, "__name__", "") for uid, operator in job.operators.items()}
    decorated = {uid: defined[name] for uid, name in names.items() if name in defined}
    other_statements = [statement for statement in without_docstring(tree.body) if statement not in decorated.values()]
    functions = {uid: digest_of([statement]) for uid, statement in decorated.items()}
    imported = FollowedImports(reference).specs(tree, spec.parent or "")
    return JobCode(digest_of(other_statements), functions, {name: _digest(module) for name, module in imported.items()})


def _digest(spec: ModuleSpec) -> str:
    tree = tree_of(spec)
    return WITHOUT_SOURCE if tree is None else digest_of([tree])
