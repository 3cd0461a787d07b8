"""The operators of a job with the changes that were made while it ran."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.errors import UnfitLogicError
from airflow_provider_ckpt.job.operators import Operator, SourceOptions
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.vertex_settings import Settings, VertexSettings

T = TypeVar("T")
Operators = Mapping[str, Operator]


class Logic(Protocol):
    """Loader of other versions of the job. A change while the job ran may have named functions of such a version."""

    def __call__(self, reference: str, digest: str | None = None) -> Operators:
        """Return the operators of job ``reference``, whose code must have ``digest``. None accepts any code."""

    def read(self, reference: str) -> str:
        """Load the current code of ``reference``, and return its digest."""


def reconfigured(
    operators: Operators, vertices: Iterable[JobVertex], settings: Settings, logic: Logic
) -> dict[str, Operator]:
    """Return ``operators`` with the functions and read limits that ``settings`` has for ``vertices``.

    Raises UnfitLogicError if a function does not fit its operator.
    """
    changed = dict(operators)
    for vertex in vertices:
        if vertex.uid in settings:
            changed |= reconfigured_vertex(changed, vertex, settings[vertex.uid], logic)
    return changed


def reconfigured_vertex(
    operators: Operators, vertex: JobVertex, settings: VertexSettings, logic: Logic
) -> dict[str, Operator]:
    """Return the changed operators of one vertex. ``operators`` has the job's declared operators.

    Raises UnfitLogicError if a function does not fit its operator.
    """
    changed: dict[str, Operator] = {}
    for uid, reference in settings.logic.items():
        if uid in operators and uid in vertex.operators:  # otherwise the operator was removed or is in another query
            version = load_other_version(uid, reference, lambda: logic(reference, settings.digests.get(uid)))  # noqa: B023
            changed[uid] = _with_logic(operators[uid], reference, version)
    limits = SourceOptions(settings.max_bytes_per_batch, settings.max_files_per_batch, is_override=True)
    if limits.to_spark():
        for uid in vertex.sources:
            if uid in operators:
                changed[uid] = replace(changed.get(uid, operators[uid]), options=limits)
    return changed


def with_digests(operators: Operators, settings: VertexSettings, logic: Logic) -> VertexSettings:
    """Return ``settings`` with a digest for each function. A missing digest is computed from the current code.

    Raises UnfitLogicError if a function's job cannot be loaded.
    """
    digests = dict(settings.digests)
    for uid, reference in settings.logic.items():
        if uid in operators and uid not in digests:
            digests[uid] = _read(uid, reference, logic)
    return replace(settings, digests=digests)


def _read(uid: str, reference: str, logic: Logic) -> str:
    try:
        return logic.read(reference)
    except InvalidInputError as error:
        raise UnfitLogicError(uid=uid, reference=reference, problem=f"cannot be loaded. {error}") from error


def load_other_version(uid: str, reference: str, load: Callable[[], T]) -> T:
    """Return the result of ``load``, which loads another version of the job.

    Raises UnfitLogicError, which names operator ``uid``, if the version cannot be loaded.
    """
    try:
        return load()
    except InvalidInputError as error:
        problem = f"cannot be loaded, and {uid} was given it while the job ran. {error}"
        raise UnfitLogicError(uid=uid, reference=reference, problem=problem) from error


def _with_logic(operator: Operator, reference: str, version: Operators) -> Operator:
    """Return ``operator`` with its function from another version. Raises UnfitLogicError if the declarations differ."""
    other = version.get(operator.uid)
    if other is None:
        known = ", ".join(version) or "none"
        raise UnfitLogicError(uid=operator.uid, reference=reference, problem=f"has no such operator; it has: {known}")
    for field in ("kind", "inputs", "bounded", "watermark", "output_mode"):
        declared, changed = getattr(operator, field), getattr(other, field)
        if declared != changed:
            problem = f"declares another {field.replace('_', ' ')}: {changed} instead of {declared}"
            if field == "inputs":  # the user may have edited the job's own file instead
                problem += " (an operator of the job that was renamed keeps its name in both by uid=...)"
            raise UnfitLogicError(uid=operator.uid, reference=reference, problem=problem)
    if (operator.splits is None) is not (other.splits is None):
        raise UnfitLogicError(uid=operator.uid, reference=reference, problem="has splits for it, or no longer has them")
    return replace(operator, function=other.function, location=other.location)
