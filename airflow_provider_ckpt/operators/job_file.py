"""The path of a job's file on the Airflow worker."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


def job_folders(task: BaseOperator) -> list[Path]:
    """Return the folders in which a task looks for a job's file with a relative path."""
    dag_folder = [Path(task.dag.fileloc).parent] if task.has_dag() else []  # type: ignore[no-untyped-call]
    return [*dag_folder, Path.cwd()]


def resolve_job(reference: str, folders: Iterable[Path]) -> str:
    """Return ``path/to/file.py:job`` with the absolute path of the file in the first of ``folders`` that has it.

    A module reference (``package.module:job``) stays as it is. Raises InvalidTaskArgumentError if the reference is
    malformed, or if there is no such file.
    """
    path, colon, name = reference.rpartition(":")
    if not colon or not path or not name:
        raise InvalidTaskArgumentError(
            argument="job", value=reference, problem='write "path/to/file.py:job" or "package.module:job"'
        )
    if not path.endswith(".py"):
        return reference
    candidates = [Path(path)] if Path(path).is_absolute() else [folder / path for folder in folders]
    for candidate in candidates:
        if candidate.is_file():
            return f"{candidate.resolve()}:{name}"
    raise InvalidTaskArgumentError(
        argument="job",
        value=reference,
        problem="no such file; looked for " + ", ".join(str(candidate) for candidate in candidates),
    )
