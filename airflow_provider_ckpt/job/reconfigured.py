"""The operators of a job as they run after what was changed while it ran."""

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
    """Reads other versions of the job."""

    def __call__(self, reference: str, digest: str | None = None) -> Operators:
        """The operators of the job that a reference names (``path/to/file.py:job``), as they were read with that
        digest."""

    def read(self, reference: str) -> str:
        """Read what is there now; returns its digest."""


def reconfigured(
    operators: Operators, vertices: Iterable[JobVertex], settings: Settings, logic: Logic
) -> dict[str, Operator]:
    """``operators`` with the functions and the limits of ``settings``; of vertices that are there. Raises
    UnfitLogicError."""
    found = dict(operators)
    for vertex in vertices:
        if vertex.uid in settings:
            found |= of_vertex(found, vertex, settings[vertex.uid], logic)
    return found


def of_vertex(operators: Operators, vertex: JobVertex, settings: VertexSettings, logic: Logic) -> dict[str, Operator]:
    """The operators of one vertex that are others than in ``operators``, which are those that the job declares. Raises
    UnfitLogicError."""
    found: dict[str, Operator] = {}
    for uid, reference in settings.logic.items():
        if uid in operators and uid in vertex.operators:  # else the job has it no longer, or in another query
            others = loaded(uid, reference, lambda: logic(reference, settings.digests.get(uid)))  # noqa: B023
            found[uid] = _with_logic(operators[uid], reference, others)
    limits = SourceOptions(settings.max_bytes_per_batch, settings.max_files_per_batch, decided=True)
    if limits.to_spark():
        for uid in vertex.sources:
            if uid in operators:
                found[uid] = replace(found.get(uid, operators[uid]), options=limits)
    return found


def read_anew(operators: Operators, settings: VertexSettings, logic: Logic) -> VertexSettings:
    """``settings`` with the digests of what is read now for the functions of which they have none. Raises
    UnfitLogicError."""
    found = dict(settings.digests)
    for uid, reference in settings.logic.items():
        if uid in operators and uid not in found:
            found[uid] = _read(uid, reference, logic)
    return replace(settings, digests=found)


def _read(uid: str, reference: str, logic: Logic) -> str:
    try:
        return logic.read(reference)
    except InvalidInputError as error:
        raise UnfitLogicError(uid=uid, reference=reference, problem=f"cannot be loaded. {error}") from error


def loaded(uid: str, reference: str, load: Callable[[], T]) -> T:
    """Whoever runs the job again knows its own file, and not that an operator was given another one."""
    try:
        return load()
    except InvalidInputError as error:
        problem = f"cannot be loaded, and {uid} was given it while the job ran. {error}"
        raise UnfitLogicError(uid=uid, reference=reference, problem=problem) from error


def _with_logic(operator: Operator, reference: str, operators: Operators) -> Operator:
    """``operator`` with the function of the one that has its uid in another version of the job. What else is declared
    of it decides about graph, state and event time, and has to be the same."""
    other = operators.get(operator.uid)
    if other is None:
        known = ", ".join(operators) or "none"
        raise UnfitLogicError(uid=operator.uid, reference=reference, problem=f"has no such operator; it has: {known}")
    for field in ("kind", "inputs", "bounded", "watermark", "output_mode"):
        mine, theirs = getattr(operator, field), getattr(other, field)
        if mine != theirs:
            problem = f"declares another {field.replace('_', ' ')}: {theirs} instead of {mine}"
            if field == "inputs":  # the file of the job may be the one that was edited
                problem += " (an operator of the job that was renamed keeps its name in both by uid=...)"
            raise UnfitLogicError(uid=operator.uid, reference=reference, problem=problem)
    if (operator.splits is None) is not (other.splits is None):
        raise UnfitLogicError(uid=operator.uid, reference=reference, problem="reads it by splits, or does no longer")
    return replace(operator, function=other.function, location=other.location)
