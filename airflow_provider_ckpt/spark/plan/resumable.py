"""Checks that a job may resume with its current definition. A driver makes them before it writes anything."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from airflow_provider_ckpt.coordinator.checkpoints.vertex_finished_state import check_restore
from airflow_provider_ckpt.coordinator.errors import IllegalGraphChangeError
from airflow_provider_ckpt.job.changes import check_changes, check_finished
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.job_code import WITHOUT_SOURCE, JobCode
from airflow_provider_ckpt.model.words import release_command
from airflow_provider_ckpt.spark.plan.job_plan import JobPlan, declared
from airflow_provider_ckpt.spark.query.errors import SchemaChangedError
from airflow_provider_ckpt.spark.query.stored_schemas import stored_schema
from airflow_provider_ckpt.spark.query.unions import shape


def check_resumable(
    state: JobState, plan: JobPlan, code: JobCode | None = None, *, allow_non_restored_state: bool, root: str
) -> None:
    """Refuse to resume if the change from the recorded definition to the current definition is not allowed.

    Operators are matched by uid. New operators start empty. Operators may be removed, with their state, only if
    ``allow_non_restored_state`` is True. No operator may move to another vertex, and no vertex may change its schema.

    Raises DefinitionChangedError, IllegalGraphChangeError, SchemaChangedError.
    """
    definition = state.definition
    if state.plan is None or definition is None:
        return
    streams = _streams(state.plan.graph) & _streams(plan.graph)
    edited = _is_edited(state, state.plan.code, plan, code)
    check_changes(definition, plan.definition, plan.changeable, state.settings, streams, is_edited=edited)
    before, after = _places(state.plan.graph), _places(plan.graph)
    moved = sorted(uid for uid in before.keys() & after.keys() if before[uid] != after[uid])
    missing = sorted(before.keys() - after.keys())
    if moved or (missing and not allow_non_restored_state):
        raise _other_job(", ".join(missing) or "none", ", ".join(moved) or "none")
    _check_behind(state, definition, missing, root)
    _check_returned(state, plan)
    _check_edges(state, plan)
    if plan.mode == "streaming":
        _check_event_time(state.plan.graph, plan)
    for uid, schema in plan.schemas_json().items():
        recorded = state.plan.schemas.get(uid, schema)
        if shape(json.loads(recorded)) != shape(json.loads(schema)):
            was = stored_schema(recorded).simpleString()
            raise SchemaChangedError(vertex=uid, before=was, after=plan.schemas[uid].simpleString())
    checkpoint = state.checkpoints.get(state.last_completed)
    if checkpoint is not None:
        operators = _without_dropped((state.plan.graph, plan.graph), checkpoint.operators)
        check_restore(plan.graph, operators, checkpoint.subtasks, allow_non_restored_state=allow_non_restored_state)


def _without_dropped(graphs: Iterable[JobGraph], operators: Mapping[str, str]) -> dict[str, str]:
    """Return uid -> vertex, for the operators of the last checkpoint that any of the graphs contains.

    All other operators were dropped in an earlier run. The user's permission to drop them is not needed again.
    """
    uids = {uid for graph in graphs for uid in graph.operators}
    return {uid: vertex for uid, vertex in operators.items() if uid in uids}


def _is_edited(state: JobState, recorded: JobCode | None, plan: JobPlan, code: JobCode | None) -> bool:
    """Return False only if the queries surely have the same code and parameters as in the previous run."""
    if code is None or code != recorded or WITHOUT_SOURCE in code.modules.values():
        return True
    assigned = any(setting.logic for setting in state.settings.values())
    return assigned or state.definition is None or state.definition.params != plan.definition.params


def check_finished_job(state: JobState, job: Job, options: RunOptions) -> None:
    """Refuse to run a FINISHED job whose definition differs from the recorded definition.

    Raises DefinitionChangedError.
    """
    previous = state.definition
    if previous is None:
        return
    mode = previous.mode if options.mode == "auto" else options.mode
    persisted = [operator.uid for operator in job.operators.values() if operator.persist]
    persisted_vertices = [vertex.uid for vertex in state.graph().vertices if vertex.persist]
    current = declared(job, mode, options.params)
    check_finished(
        previous, current, job.operators, _places(state.graph()), persisted=persisted, kept=persisted_vertices
    )


def sinks_without_rows(state: JobState, graph: JobGraph) -> list[tuple[str, str]]:
    """Return (sink, vertex) for each new sink of a vertex at its end of data. Such a sink gets no rows.

    ``state``: the state before the current plan is recorded.
    """
    if state.plan is None:
        return []
    previous_sinks = {uid for vertex in state.plan.graph.vertices for uid in vertex.sinks}
    over = {subtask.vertex for subtask in {*state.end_of_data, *state.finished}}
    return [(uid, v.uid) for v in graph.vertices if v.uid in over for uid in v.sinks if uid not in previous_sinks]


def _check_behind(state: JobState, definition: JobDefinition, missing: Collection[str], root: str) -> None:
    """Refuse to drop a sink with unreleased output of a completed checkpoint, which no later driver could release.

    A sink that releases only at the end may be dropped before the final checkpoint, because it has nothing to release.
    ``missing``: uids of operators and sinks that the current job lacks.
    """
    checkpoint = state.checkpoints.get(state.last_completed)
    is_at_end = checkpoint is not None and checkpoint.is_final
    for uid in missing:
        sink = definition.sinks.get(uid)
        if sink is None or (sink.release == "final" and not is_at_end):
            continue
        released = max(state.last_released, state.sinks_released.get(uid, 0))
        if released < state.last_completed:
            release, completed = release_command(state.job_id, root), state.last_completed
            raise IllegalGraphChangeError(
                "sink {sink!r} is gone (or has another uid) in job {job_id!r}, and was released up to checkpoint "
                "{released} of {completed}: the rows that it has staged since would never be released. Release them "
                "first, with the job as it was (`{release}`, or a run that ends). If the sink was only renamed, give "
                "it its old uid",
                job_id=state.job_id,
                sink=uid,
                released=released,
                completed=completed,
                release=release,
            )


def _check_returned(state: JobState, plan: JobPlan) -> None:
    """Refuse a source that an earlier run dropped, and that is back in the same query under the same uid.

    That query still has the source's old read position under this uid.

    Raises IllegalGraphChangeError.
    """
    assert state.plan is not None
    vertices = {vertex.uid for vertex in state.plan.graph.vertices}
    places = _places(state.plan.graph)
    for vertex in plan.graph.vertices:
        readers = {vertex.uid, *(edge.consumer for edge in plan.graph.outputs(vertex.uid))}
        back = [uid for uid in vertex.sources if uid in state.abandoned and uid not in places]
        if back and readers & vertices:
            raise _returned(back[0], min(readers & vertices))
    for edge in plan.graph.edges:
        if edge.producer in state.abandoned and edge.producer not in vertices and edge.consumer in vertices:
            raise _returned(edge.producer, edge.consumer)


def _returned(source: str, vertex: str) -> IllegalGraphChangeError:
    return IllegalGraphChangeError(
        "{source!r} was given up earlier, and the query of {vertex!r} continued without it. That query still has "
        "under this name how far it had read the source: give the source another uid",
        source=source,
        vertex=vertex,
    )


def _check_event_time(before: JobGraph, plan: JobPlan) -> None:
    """Refuse a new input of a query that keeps state by event time and has run.

    Spark's event time does not go back, so rows of the new input could be dropped as late.
    """
    inputs = {
        vertex.uid: {*vertex.sources, *(edge.producer for edge in before.inputs(vertex.uid))}
        for vertex in before.vertices
    }
    for vertex in plan.graph.vertices:
        previous_inputs, current = inputs.get(vertex.uid), plan.definition.vertices.get(vertex.uid)
        if previous_inputs is None or current is None or not (current.stateful and current.event_time):
            continue
        added = {*vertex.sources, *(edge.producer for edge in plan.graph.inputs(vertex.uid))} - previous_inputs
        if added:
            raise IllegalGraphChangeError(
                "source {source!r} is new in the query of {vertex!r}, which keeps state by event time and has run: "
                "its event time does not go back, and older rows of the new source would be dropped as late. Run the "
                "job under another id, or give {vertex!r} another uid so that it starts empty",
                source=min(added),
                vertex=vertex.uid,
            )


def _check_edges(state: JobState, plan: JobPlan) -> None:
    """Refuse changed consumers of a vertex's result partition if a consumer that remains would lose rows (R7).

    A new consumer gets only rows that are published later. If the vertex is bounded, it would miss the earlier rows. A
    consumer that still exists, but no longer reads the partition, may have unread rows there.
    """
    assert state.plan is not None
    before, kept = state.plan.graph, {vertex.uid for vertex in plan.graph.vertices}
    at_end = {subtask.vertex for subtask in {*state.end_of_data, *state.finished}}
    for vertex in [vertex for vertex in before.vertices if vertex.uid in kept]:
        uid = vertex.uid
        old_edges, new_edges = (
            {edge.uid: edge.consumer for edge in graph.outputs(uid)} for graph in (before, plan.graph)
        )
        if old_edges != new_edges and (vertex.bounded or uid in at_end):
            raise IllegalGraphChangeError(
                "the consumers of {vertex!r} have changed, and it reads sources that end. It published its rows for "
                "the earlier consumers, and a new one would get only the rest. Change them back, let the new consumer "
                "read the source under another uid, or run the job under another id",
                vertex=uid,
            )
        lost_consumers = [old_edges[edge] for edge in old_edges.keys() - new_edges.keys() if old_edges[edge] in kept]
        if lost_consumers:
            raise IllegalGraphChangeError(
                "{vertex!r} no longer reads {producer!r}, and may not have read all rows that {producer!r} published "
                "for it: these rows would be lost. Give {vertex!r} another uid, so that it starts empty, or change it "
                "back",
                vertex=min(lost_consumers),
                producer=uid,
            )
        if vertex.persist != plan.graph.vertex(uid).persist:  # rows that all consumers read may be deleted already
            raise _other_job("none", f"whether the result of {uid} is kept (persist)")


def _other_job(gone: str, moved: str) -> IllegalGraphChangeError:
    return IllegalGraphChangeError(
        "the job is not the one its journal describes (operators that are gone: {gone}; that moved to another query: "
        "{moved}); change it back (a renamed operator keeps its state with uid= and its old name), run it under "
        "another job id, or drop the state of operators that are gone with allow_non_restored_state "
        "(--allow-non-restored-state)",
        gone=gone,
        moved=moved,
    )


def _streams(graph: JobGraph) -> set[str]:
    """Return the uids of all sources and edges of a graph, which are the names of Spark's streams."""
    return {uid for vertex in graph.vertices for uid in vertex.sources} | {edge.uid for edge in graph.edges}


def _places(graph: JobGraph) -> dict[str, tuple[str, bool]]:
    """Return operator uid -> (its vertex, True if the vertex is bounded)."""
    return {
        uid: (vertex.uid, vertex.bounded) for vertex in graph.vertices for uid in (*vertex.operators, *vertex.sinks)
    }
