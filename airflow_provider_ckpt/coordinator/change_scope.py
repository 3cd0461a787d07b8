"""The queries that a reconfiguration affects. The graph alone determines them, so a client can preview a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from airflow_provider_ckpt.coordinator.errors import ReconfigurationRefusedError
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.setting_ranges import problem_of_settings
from airflow_provider_ckpt.model.vertex_settings import LIMITS, VertexSettings


def by_vertex(graph: JobGraph, changes: Mapping[str, VertexSettings]) -> dict[str, VertexSettings]:
    """Return vertex → the merged changes of all operators in it, because one query runs these operators.

    Raises ReconfigurationRefusedError if the change is impossible, contradicts itself or is empty.
    """
    settings: dict[str, VertexSettings] = {}
    for uid, change in changes.items():
        vertex = vertex_of(graph, uid)
        if change.is_declared:
            raise ReconfigurationRefusedError(why=f"no setting is given for {uid}")
        if (problem := problem_of_settings(change)) is not None:
            raise ReconfigurationRefusedError(why=f"{uid}: {problem}")
        _refuse_unfit(vertex, change)
        if {*change.logic} - {uid}:
            raise ReconfigurationRefusedError(why=f"the logic of {', '.join(change.logic)} is no setting of {uid}")
        earlier = settings.get(vertex.uid, VertexSettings())
        _refuse_contradiction(vertex.uid, earlier, change)
        settings[vertex.uid] = earlier.changed(replace(change, digests={}))  # attempts that try it report them
    if not settings:
        raise ReconfigurationRefusedError(why="it changes nothing")
    return settings


def vertex_of(graph: JobGraph, uid: str) -> JobVertex:
    """Return the vertex that runs operator ``uid``.

    Raises ReconfigurationRefusedError if ``uid`` is a sink or no operator of the job.
    """
    for vertex in graph.vertices:
        if uid in vertex.sinks:
            raise ReconfigurationRefusedError(why=f"{uid} is a sink, and has no query of its own: name {vertex.uid}")
        if uid in vertex.operators:
            return vertex
    operators = ", ".join(uid for vertex in graph.vertices for uid in vertex.operators)
    if not operators:
        raise ReconfigurationRefusedError(why="no run of the job has planned it: there is nothing to change")
    raise ReconfigurationRefusedError(why=f"{uid} is no operator of the job; there are: {operators}")


def _refuse_unfit(vertex: JobVertex, change: VertexSettings) -> None:
    if vertex.splits and change != VertexSettings(parallelism=change.parallelism):
        why = f"{vertex.uid} is read split by split: only its parallelism can be changed"
        raise ReconfigurationRefusedError(why=why)
    if not vertex.splits and change.parallelism is not None:
        why = f"{vertex.uid} is no source with splits; only such a source can get another parallelism"
        raise ReconfigurationRefusedError(why=why)


def _refuse_contradiction(vertex: str, earlier: VertexSettings, change: VertexSettings) -> None:
    for name in (field.name for field in fields(VertexSettings) if field.name not in ("logic", "digests")):
        values = {getattr(earlier, name), getattr(change, name)} - {None}
        if len(values) > 1:
            text = " and ".join(sorted(map(str, values)))
            raise ReconfigurationRefusedError(why=f"{name} of the query {vertex} is given as {text}")
    limits = {name for settings in (earlier, change) for name in LIMITS if getattr(settings, name) is not None}
    if len(limits) > 1:  # the second limit would silently replace the first
        why = f"the query {vertex} is given both {' and '.join(sorted(limits))}: Spark takes only one of them"
        raise ReconfigurationRefusedError(why=why)
