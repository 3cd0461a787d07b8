"""Checks of code that was assigned to operators while the job ran, before a later run calls it (R21)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from airflow_provider_ckpt.job.errors import UnfitLogicError
from airflow_provider_ckpt.job.reconfigured import loaded
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.vertex_settings import Settings
from airflow_provider_ckpt.model.words import ckpt_command
from airflow_provider_ckpt.spark.errors import UnfitAssignedLogicError
from airflow_provider_ckpt.spark.plan.code_places import CodePlaces
from airflow_provider_ckpt.spark.plan.logic import LogicLoader
from airflow_provider_ckpt.storage.location import Location


def refuse_foreign(places: CodePlaces, graph: JobGraph, settings: Settings, job_id: str, root: Location) -> None:
    """Refuse assigned code outside of the allowed places. Read none of it, because the journal may be forged.

    Raises UnfitAssignedLogicError.
    """
    for uid, reference, _ in _assigned(graph, settings):
        try:
            loaded(uid, reference, partial(places.check, reference))
        except UnfitLogicError as error:
            raise unfit(uid, reference, error.data["problem"], job_id, root) from error


def refuse_edited(
    logic: LogicLoader,
    operators: Collection[str],
    graph: JobGraph,
    settings: Settings,
    job_id: str,
    root: Location,
) -> None:
    """Refuse assigned code that was edited after it was assigned, because only the code of that time was tried.

    The job's own file is not refused, because its user may edit it between two runs.

    Args:
        operators: uids of the job's operators.

    Raises UnfitAssignedLogicError.
    """
    for uid, reference, given in _assigned(graph, settings):
        if given is None or uid not in operators or logic.places.is_own(reference):
            continue
        try:
            found = loaded(uid, reference, partial(logic.found, reference, given))
        except UnfitLogicError as error:
            raise unfit(uid, reference, error.data["problem"], job_id, root) from error
        if found != given:
            problem = (
                f"has changed since {uid} was given it (digest {found} instead of {given}; the digest covers the "
                "modules next to it that it imports, but no comments and no layout)"
            )
            raise unfit(uid, reference, problem, job_id, root)


def _assigned(graph: JobGraph, settings: Settings) -> Iterator[tuple[str, str, str | None]]:
    """Yield operator, reference and digest for each function that was assigned."""
    for vertex in graph.vertices:
        if vertex.uid in settings:
            of_vertex = settings[vertex.uid]
            for uid, reference in of_vertex.logic.items():
                if uid in vertex.operators:
                    yield uid, reference, of_vertex.digests.get(uid)


def unfit(uid: str, reference: str, problem: str, job_id: str, root: Location) -> UnfitAssignedLogicError:
    command = ckpt_command("reconfigure", job_id, f"{uid}.logic=declared", "--next-run", root=root.for_display())
    return UnfitAssignedLogicError(uid=uid, reference=reference, problem=problem, command=command)
