"""Whether what somebody asks of a running job is decided: later runs go by it, whatever became of who was asked."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ckpt.coordinator.affected import by_vertex
from airflow_provider_ckpt.coordinator.errors import ReconfigurationRefusedError
from airflow_provider_ckpt.journal.requests import Changes, Request, RescaleRequest
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.vertex_settings import Settings, VertexSettings, merged, of_queries, rescales


def is_changed(state: JobState, changes: Changes) -> bool:
    """Whether the job runs, or would run next, with what they say."""
    try:
        change = by_vertex(state.graph(), changes)
    except ReconfigurationRefusedError:
        return False
    scaled = all(is_rescaled(state, RescaleRequest(uid, number)) for uid, number in rescales(change).items())
    return scaled and _without_digests(merged(state.settings, of_queries(change))) == _without_digests(state.settings)


def is_surely_changed(state: JobState, changes: Changes) -> bool:
    """The same, whoever has decided it. Of a change that names a file it cannot be told: one that is assigned once more
    has the name that it had, and may hold something else."""
    names_file = any(one.names_file for one in changes.values())
    return bool(changes) and not names_file and is_changed(state, changes)


def is_rescaled(state: JobState, asked: RescaleRequest) -> bool:
    if state.plan is None:
        return False
    source = None if state.plan.definition is None else state.plan.definition.sources.get(asked.uid)
    declared = None if source is None else source.parallelism
    return state.plan.rescaled.get(asked.uid, declared) == asked.parallelism


def still_wanted(state: JobState, changes: Changes) -> Changes:
    """Without the numbers of subtasks that read a source already: once all of its splits are handed out such a number
    cannot be decided again, and whoever asks a second time would be refused what is so."""
    wanted = {}
    for uid, one in changes.items():
        if one.parallelism is not None and is_rescaled(state, RescaleRequest(uid, one.parallelism)):
            one = replace(one, parallelism=None)
        if not one.is_declared:
            wanted[uid] = one
    return wanted


def was_decided(state: JobState, request: Request) -> bool:
    """By the JobMaster before, which had taken it: there is nothing left to decide. Of a change that a JobMaster of an
    earlier release has decided, and that names a file, it cannot be told."""
    if request.name == state.reconfigured_for:
        return True
    if request.name not in state.taken_again:
        return False
    if request.rescale is not None:
        return is_rescaled(state, request.rescale)
    return is_surely_changed(state, request.changes)


def _without_digests(settings: Settings) -> dict[str, VertexSettings]:
    """Whoever asks names a file, and does not say what is in it."""
    return {uid: replace(one, digests={}) for uid, one in settings.items()}
