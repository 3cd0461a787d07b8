"""Tests of whether a requested change is already in the journal, which later runs follow."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ckpt.coordinator.change_scope import by_vertex
from airflow_provider_ckpt.coordinator.errors import ReconfigurationRefusedError
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_request import Changes, JobRequest, ReconfigureRequest
from airflow_provider_ckpt.model.vertex_settings import Settings, VertexSettings, merged, query_changes, rescales


def is_changed(state: JobState, changes: Changes) -> bool:
    """Return whether the job already runs, or would run next, with ``changes``."""
    try:
        change = by_vertex(state.graph(), changes)
    except ReconfigurationRefusedError:
        return False
    scaled = all(is_rescaled(state, uid, number) for uid, number in rescales(change).items())
    return scaled and _without_digests(merged(state.settings, query_changes(change))) == _without_digests(
        state.settings
    )


def is_decided(state: JobState, request: JobRequest) -> bool:
    """Return whether the requested change is journaled, so that later runs apply it.

    The file of a changed function may have new content under the same name. So a change that names a file counts as
    journaled only if ``reconfigured_for`` names its request. An upgrade never counts, because no event records it.
    """
    if request.name == state.reconfigured_for:
        return True
    if not isinstance(request, ReconfigureRequest):
        return False
    names_file = any(change.names_file for change in request.changes.values())
    return not names_file and is_changed(state, request.changes)


def is_rescaled(state: JobState, uid: str, parallelism: int) -> bool:
    if state.plan is None:
        return False
    source = state.plan.definition.sources.get(uid)
    declared = None if source is None else source.parallelism
    return state.plan.rescaled.get(uid, declared) == parallelism


def unapplied_changes(state: JobState, changes: Changes) -> Changes:
    """Return ``changes`` without parallelisms that are already in effect, because the coordinator would refuse them."""
    remaining = {}
    for uid, change in changes.items():
        if change.parallelism is not None and is_rescaled(state, uid, change.parallelism):
            change = replace(change, parallelism=None)
        if not change.is_declared:
            remaining[uid] = change
    return remaining


def was_decided(state: JobState, request: JobRequest) -> bool:
    """Return whether the previous JobMaster accepted ``request`` and journaled its change."""
    was_taken = request.name in state.retaken or request.name == state.reconfigured_for
    return was_taken and is_decided(state, request)


def _without_digests(settings: Settings) -> dict[str, VertexSettings]:
    return {uid: replace(setting, digests={}) for uid, setting in settings.items()}
