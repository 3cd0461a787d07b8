"""Facts about a job's state for callers that wait for the job, without importing the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState


def has_ended(state: JobState) -> bool:
    """Return True if the job is FINISHED, STOPPED, FAILED or deleted. A RESTARTING job is expected to run again."""
    return state.status is not None and state.status.has_ended


def is_journaled(state: JobState) -> bool:
    """Return True if anything is known of the job."""
    return bool(state.epoch or state.status or state.damage)


def is_whole(state: JobState) -> bool:
    """Return True if the state shows the whole journal. Otherwise a missing fact proves nothing."""
    return state.epoch > 0 and not state.damage
