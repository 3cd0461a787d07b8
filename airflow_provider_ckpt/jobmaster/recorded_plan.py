"""What a run is going to do, in the journal."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from airflow_provider_ckpt.jobmaster.owned_journal import OwnedJournal
from airflow_provider_ckpt.journal.events import JobCreated, PlanRecorded
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.job_code import JobCode
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.subtask_id import SubtaskId
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
    """``schemas``: of each vertex's output, as Spark writes them; ``options``: of the run, without secrets;
    ``rescaled``, ``code``: see :class:`PlanRecorded`; ``settings``: those of the journal, with what was read for them;
    None: as they are there."""
    now = time.time()
    state = journal.state
    if state.created is None:
        journal.write(JobCreated(job_id, graph, definition.mode, SubmittedOptions(options), now))
    before = state.definition
    kept = definition if before is None else definition.keeping(before)
    there = _of_those_there(settings or state.settings, graph)
    hosts = _hosts(state, graph, definition)
    journal.write(PlanRecorded(graph, schemas, now, kept, rescaled or {}, there, code, hosts))


def _of_those_there(settings: Settings, graph: JobGraph) -> dict[str, VertexSettings]:
    """An operator that was left out, and is there again in whichever query, is a new one: it has the function that the
    job declares."""
    known = {vertex.uid: set(vertex.operators) for vertex in graph.vertices}
    there = {
        uid: replace(one, logic=_named(one.logic, known[uid]), digests=_named(one.digests, known[uid]))
        for uid, one in settings.items()
        if uid in known
    }
    return {uid: one for uid, one in there.items() if not one.is_declared}


def _named(values: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name in names}


def _hosts(state: JobState, graph: JobGraph, definition: JobDefinition) -> dict[SubtaskId, SubtaskId]:
    """A retry begins the tasks that there were, so whoever ran a subtask beside another does it again. Once the job
    declares another parallelism it is planned anew with that, and each is asked for by its own name."""
    there, before, now = set(graph.subtasks), _declared(state.definition), _declared(definition)
    return {
        guest: host
        for guest, host in state.hosts.items()
        if there.issuperset((guest, host)) and before.get(guest.vertex) == now.get(guest.vertex)
    }


def _declared(definition: JobDefinition | None) -> dict[str, int | None]:
    """Source -> its parallelism, as the job declares it."""
    return {} if definition is None else {uid: one.parallelism for uid, one in definition.sources.items()}
