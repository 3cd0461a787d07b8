"""Facts about a job's state, for callers that must not import the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState


def has_ended(state: JobState) -> bool:
    """Return True if the job is FINISHED, STOPPED, FAILED or deleted. A RESTARTING job has not ended."""
    return state.status is not None and state.status.has_ended


def is_journaled(state: JobState) -> bool:
    """Return True if the job has a journal entry, or a damaged journal."""
    return bool(state.epoch or state.status or state.damage)


def is_whole(state: JobState) -> bool:
    """Return True if the state comes from a complete journal, so that a missing fact means that it never happened."""
    return state.epoch > 0 and not state.damage
