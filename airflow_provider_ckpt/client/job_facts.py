"""What a job's state means for whoever waits for the job. Nothing of the journal is imported for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState


def has_ended(state: JobState) -> bool:
    """FINISHED, STOPPED or FAILED, or deleted. After RESTARTING somebody is expected to run the job again."""
    return state.status is not None and state.status.has_ended


def is_journaled(state: JobState) -> bool:
    """Whether anything is known of the job."""
    return bool(state.epoch or state.status or state.damage)


def is_whole(state: JobState) -> bool:
    """Whether it is what the journal says. Else entries cannot be read, or the root is not where it was, a moment ago
    say: nothing follows from what is missing."""
    return state.epoch > 0 and not state.damage
