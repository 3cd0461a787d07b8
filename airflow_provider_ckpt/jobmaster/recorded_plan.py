"""Recording of a run's plan in the journal."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.journal.events import JobCreated, PlanRecorded
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_code import JobCode
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.vertex_settings import Settings, VertexSettings


def record_plan(
    journal: OwnedJournal,
    job_id: str,
    graph: JobGraph,
    definition: JobDefinition,
    schemas: Mapping[str, str],
    options: Mapping[str, object],
    rescaled: Mapping[str, int] | None = None,
    settings: Settings | None = None,
    code: JobCode | None = None,
) -> None:
    """Journal the plan of this run.

    Args:
        schemas: Vertex → its output schema as Spark's JSON text.
        options: Options of the run, without secrets.
        rescaled: Source with splits → number of its subtasks (:class:`PlanRecorded`).
        settings: Vertex → its changed settings, with digests that were read; None for the settings in the journal.
        code: Digests of the job's code (:class:`PlanRecorded`), or None.
    """
    now = time.time()
    state = journal.state
    if state.created is None:
        journal.write(JobCreated(job_id, graph, definition.mode, SubmittedOptions(options), now))
    previous = state.definition
    kept_definition = definition if previous is None else definition.with_ended_parts_of(previous)
    current_settings = _current_settings(settings or state.settings, graph)
    hosts = _hosts(state, graph, definition)
    journal.write(PlanRecorded(graph, schemas, now, kept_definition, rescaled or {}, current_settings, code, hosts))


def _current_settings(settings: Settings, graph: JobGraph) -> dict[str, VertexSettings]:
    """Return the settings of operators that the job still has. A dropped operator loses its settings for good."""
    operators = {vertex.uid: set(vertex.operators) for vertex in graph.vertices}
    kept = {
        uid: replace(
            setting, logic=_named(setting.logic, operators[uid]), digests=_named(setting.digests, operators[uid])
        )
        for uid, setting in settings.items()
        if uid in operators
    }
    return {uid: setting for uid, setting in kept.items() if not setting.is_declared}


def _named(values: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name in names}


def _hosts(state: JobState, graph: JobGraph, definition: JobDefinition) -> dict[SubtaskId, SubtaskId]:
    """Return guest → host: subtasks that a rescale placed in a host's worker, and that a retry runs there again.

    Pairs whose source has another declared parallelism now are dropped.
    """
    subtasks, previous, current = set(graph.subtasks), _declared(state.definition), _declared(definition)
    return {
        guest: host
        for guest, host in state.hosts.items()
        if subtasks.issuperset((guest, host)) and previous.get(guest.vertex) == current.get(guest.vertex)
    }


def _declared(definition: JobDefinition | None) -> dict[str, int | None]:
    return {} if definition is None else {uid: source.parallelism for uid, source in definition.sources.items()}
