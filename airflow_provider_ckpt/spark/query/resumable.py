"""Whether a job may go on under its id with the definition it has now: decided before anything is written."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from airflow_provider_ckpt.coordinator.vertex_finished_state import check_restore
from airflow_provider_ckpt.job.changes import check_changes, check_finished
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.job_code import WITHOUT_SOURCE, JobCode
from airflow_provider_ckpt.model.words import release_command
from airflow_provider_ckpt.spark.query.errors import (
    EndingConsumersError,
    GraphChangedError,
    LateSourceError,
    LostInputError,
    ReturnedSourceError,
    SchemaChangedError,
    UnreleasedSinkGoneError,
)
from airflow_provider_ckpt.spark.query.job_plan import JobPlan, declared
from airflow_provider_ckpt.spark.query.stored_schemas import stored_schema
from airflow_provider_ckpt.spark.query.unions import shape


def check_resumable(
    state: JobState, plan: JobPlan, code: JobCode | None = None, *, allow_non_restored_state: bool, root: str
) -> None:
    """Refuse to go on with another job under the same id. Operators are matched by uid: new ones start empty,
    gone ones need ``allow_non_restored_state``, and none may move to another vertex or change its output. ``code``: of
    the job's file. ``root``: for display.

    Raises DefinitionChangedError, GraphChangedError, UnreleasedSinkGoneError, SchemaChangedError,
    IllegalGraphChangeError.
    """
    definition = state.definition
    if state.plan is None or definition is None:
        return
    streams = _streams(state.plan.graph) & _streams(plan.graph)
    edited = _is_edited(state, state.plan.code, plan, code)
    check_changes(definition, plan.definition, plan.changeable, state.settings, streams, is_edited=edited)
    before, after = _places(state.plan.graph), _places(plan.graph)
    moved = sorted(uid for uid in before.keys() & after.keys() if before[uid] != after[uid])
    gone = sorted(before.keys() - after.keys())
    if moved or (gone and not allow_non_restored_state):
        raise GraphChangedError(gone=", ".join(gone) or "none", moved=", ".join(moved) or "none")
    _check_behind(state, definition, gone, root)
    _check_returned(state, plan)
    _check_edges(state, plan)
    if plan.mode == "streaming":
        _check_event_time(state.plan.graph, plan)
    for uid, schema in plan.schemas_json().items():
        known = state.plan.schemas.get(uid, schema)
        if shape(json.loads(known)) != shape(json.loads(schema)):
            was = stored_schema(known).simpleString()
            raise SchemaChangedError(vertex=uid, before=was, after=plan.schemas[uid].simpleString())
    last = state.checkpoints.get(state.last_completed)
    if last is not None:
        told = _without_given_up((state.plan.graph, plan.graph), last.operators)
        check_restore(plan.graph, told, last.subtasks, allow_non_restored_state=allow_non_restored_state)


def _without_given_up(graphs: Iterable[JobGraph], operators: Mapping[str, str]) -> dict[str, str]:
    """Of what the last checkpoint tells, what is in the plan of before or of now. Whoever gave the others up was asked
    for leave, and has recorded a plan without them: nobody is asked twice, least of all workers."""
    known = {uid for graph in graphs for uid in graph.operators}
    return {uid: told for uid, told in operators.items() if uid in known}


def _is_edited(state: JobState, before: JobCode | None, plan: JobPlan, code: JobCode | None) -> bool:
    """Whether the code that the queries run may be another one than in the run before."""
    if code is None or code != before or WITHOUT_SOURCE in code.modules.values():
        return True
    assigned = any(one.logic for one in state.settings.values())
    return assigned or state.definition is None or state.definition.params != plan.definition.params


def check_finished_job(state: JobState, job: Job, options: RunOptions) -> None:
    """Of a job that is FINISHED: raises DefinitionChangedError if it is asked to run as another one."""
    before = state.definition
    if before is None:
        return
    mode = before.mode if options.mode == "auto" else options.mode
    persisted = [operator.uid for operator in job.operators.values() if operator.persist]
    kept = [vertex.uid for vertex in state.graph().vertices if vertex.persist]
    after = declared(job, mode, options.params)
    check_finished(before, after, job.operators, _places(state.graph()), persisted=persisted, kept=kept)


def sinks_without_rows(state: JobState, graph: JobGraph) -> list[tuple[str, str]]:
    """(sink, vertex) of those that were added behind a vertex that is at its end. ``state``: before the plan."""
    if state.plan is None:
        return []
    known = {uid for vertex in state.plan.graph.vertices for uid in vertex.sinks}
    over = {subtask.vertex for subtask in {*state.end_of_data, *state.finished}}
    return [(uid, v.uid) for v in graph.vertices if v.uid in over for uid in v.sinks if uid not in known]


def _check_behind(state: JobState, definition: JobDefinition, gone: Collection[str], root: str) -> None:
    """What was staged for a sink and not released yet is output, no state to be given up: nobody would release it any
    more, and the checkpoint would count as released when the others have it. One that releases at the end only has
    nothing to release before that: it is given up, as was asked for. Behind the final checkpoint it is like any."""
    last = state.checkpoints.get(state.last_completed)
    is_at_end = last is not None and last.is_final
    for uid in gone:
        sink = definition.sinks.get(uid)
        if sink is None or (sink.release == "final" and not is_at_end):
            continue
        released = max(state.last_released, state.sinks_released.get(uid, 0))
        if released < state.last_completed:
            release, completed = release_command(state.job_id, root), state.last_completed
            raise UnreleasedSinkGoneError(
                job_id=state.job_id, sink=uid, released=released, completed=completed, release=release
            )


def _check_returned(state: JobState, plan: JobPlan) -> None:
    """A query that went on without a source remembers by its name how far it had read it."""
    assert state.plan is not None
    known = {vertex.uid for vertex in state.plan.graph.vertices}
    before = _places(state.plan.graph)
    for vertex in plan.graph.vertices:
        readers = {vertex.uid, *(edge.consumer for edge in plan.graph.outputs(vertex.uid))}
        back = [uid for uid in vertex.sources if uid in state.given_up and uid not in before]
        if back and readers & known:
            raise ReturnedSourceError(source=back[0], vertex=min(readers & known))
    for edge in plan.graph.edges:
        if edge.producer in state.given_up and edge.producer not in known and edge.consumer in known:
            raise ReturnedSourceError(source=edge.producer, vertex=edge.consumer)


def _check_event_time(before: JobGraph, plan: JobPlan) -> None:
    """Spark keeps one event time for a query, and it does not go back: rows of an input that is added would be late."""
    inputs = {
        vertex.uid: {*vertex.sources, *(edge.producer for edge in before.inputs(vertex.uid))}
        for vertex in before.vertices
    }
    for vertex in plan.graph.vertices:
        known, now = inputs.get(vertex.uid), plan.definition.vertices.get(vertex.uid)
        if known is None or now is None or not (now.stateful and now.event_time):
            continue
        added = {*vertex.sources, *(edge.producer for edge in plan.graph.inputs(vertex.uid))} - known
        if added:
            raise LateSourceError(source=min(added), vertex=vertex.uid)


def _check_edges(state: JobState, plan: JobPlan) -> None:
    """A result partition is read by the consumers for which it was written. One that comes gets what is published from
    then on, as a new sink does: of sources that end that would be a rest. What is unread by one that goes is given up
    with it (R7)."""
    assert state.plan is not None
    before, there = state.plan.graph, {vertex.uid for vertex in plan.graph.vertices}
    at_end = {subtask.vertex for subtask in {*state.end_of_data, *state.finished}}
    for vertex in [vertex for vertex in before.vertices if vertex.uid in there]:
        uid = vertex.uid
        was, now = ({edge.uid: edge.consumer for edge in graph.outputs(uid)} for graph in (before, plan.graph))
        if was != now and (vertex.bounded or uid in at_end):
            raise EndingConsumersError(vertex=uid)
        lost = [was[edge] for edge in was.keys() - now.keys() if was[edge] in there]
        if lost:
            raise LostInputError(vertex=min(lost), producer=uid)
        if vertex.persist != plan.graph.vertex(uid).persist:  # what is read by all may have gone already
            raise GraphChangedError(gone="none", moved=f"whether the result of {uid} is kept (persist)")


def _streams(graph: JobGraph) -> set[str]:
    """As queries name what they read."""
    return {uid for vertex in graph.vertices for uid in vertex.sources} | {edge.uid for edge in graph.edges}


def _places(graph: JobGraph) -> dict[str, tuple[str, bool]]:
    """Operator uid -> its vertex and whether that is bounded."""
    return {
        uid: (vertex.uid, vertex.bounded) for vertex in graph.vertices for uid in (*vertex.operators, *vertex.sinks)
    }
