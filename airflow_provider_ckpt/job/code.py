"""The code of a job that was loaded: of its file, and of what that imports from its own folder or package."""

from __future__ import annotations

import ast
import importlib.util
import os
from importlib.machinery import ModuleSpec

from airflow_provider_ckpt.job.followed_imports import UNREADABLE, FollowedImports, tree_of
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.loading import LoadedJob, parts_of
from airflow_provider_ckpt.job.syntax import digest_of, without_docstring
from airflow_provider_ckpt.model.job_code import WITHOUT_SOURCE, JobCode


def code_of(loaded: LoadedJob, reference: str) -> JobCode | None:
    """``loaded``: from ``reference``, just now. None: there is no source to be read. What is imported is followed by
    what is written, not by what has run: a module that a function imports when it is called counts, one whose name is
    worked out does not."""
    return _code(loaded.module.__spec__, loaded.job, reference)


def code_of_version(job: Job, reference: str) -> JobCode | None:
    """Of one that was loaded beside what is imported already: its modules do not say any more where they come from."""
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
    defined = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef) and one.decorator_list}
    names = {uid: getattr(one.function, "__name__", "") for uid, one in job.operators.items()}
    own = {uid: defined[name] for uid, name in names.items() if name in defined}
    rest = [one for one in without_docstring(tree.body) if one not in own.values()]
    functions = {uid: digest_of([one]) for uid, one in own.items()}
    imported = FollowedImports(reference).specs(tree, spec.parent or "")
    return JobCode(digest_of(rest), functions, {name: _digest(one) for name, one in imported.items()})


def _digest(spec: ModuleSpec) -> str:
    tree = tree_of(spec)
    return WITHOUT_SOURCE if tree is None else digest_of([tree])
