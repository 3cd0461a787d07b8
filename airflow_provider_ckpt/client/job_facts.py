"""Facts about a job's state, for callers that must not import the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState


def has_ended(state: JobState) -> bool:
    """Return True if the job is FINISHED, STOPPED, FAILED or deleted. A RESTARTING job has not ended."""
    return state.status is not None and state.status.has_ended


def is_journaled(state: JobState) -> bool:
    """Return True if the job has a journal entry, or a damaged journal."""
    return bool(state.epoch or state.status or state.damage)


def is_whole(state: JobState) -> bool:
    """Return True if the state comes from a complete journal. An event that such a state lacks has never happened."""
    return state.epoch > 0 and not state.damage


def short_result(state: JobState) -> dict[str, Any]:
    """Return the result (XCom) of a task that waits for the job or sends it a request."""
    return {
        "job_id": state.job_id,
        "status": None if state.status is None else str(state.status),
        "checkpoint": state.last_completed or None,
        "released": state.last_released or None,
    }


def full_result(state: JobState) -> dict[str, Any]:
    """Return the result (XCom) of the task that runs the job."""
    return {
        **short_result(state),
        "epoch": state.epoch or None,
        "finished_operators": state.finished_operators(),
        "late_rows": sum(state.late_rows().values()),
        "changed_files": state.changed_file_count(),
        "unfit_rows": state.unfit_rows(),
        "malformed_rows": sum(state.malformed_rows().values()),
    }
