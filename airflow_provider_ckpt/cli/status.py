"""The status of a job for users, with a note where the status alone misleads."""

from __future__ import annotations

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_status import JobStatus


def shown_status(state: JobState) -> str | None:
    """Return the journal's status, with a note where the status alone misleads. None for a job without a status."""
    status, note = state.status or ("not RUNNING yet" if state.is_held else None), status_note(state)
    return status if note is None else f"{status} ({note})"


def status_note(state: JobState) -> str | None:
    """Return a fact that the status does not show: the run failed, the job is only planned, or its driver is gone.

    None if there is no such fact. A killed driver leaves RUNNING in the journal. Only the driver's own host can check
    whether the driver runs.
    """
    if state.status is JobStatus.RESTARTING:
        return "the run failed and can be retried"
    if not state.is_held:
        return None
    if 0 < state.deployment == state.epoch:  # the process that plans leaves by design
        return "planned; no JobMaster has started"
    if is_alive(state.worker) is not False:
        return None
    if state.deployment:
        return "its JobMaster is gone; workers that live continue until the next one"
    return "its driver is gone; the next run resumes the job"
