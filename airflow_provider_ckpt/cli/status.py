"""A job's status, with whether the driver that left it so is still there."""

from __future__ import annotations

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive


def shown_status(state: JobState) -> str | None:
    """The journal's status; a killed driver leaves RUNNING behind, which is said if it can be seen from here."""
    status = state.status or ("not RUNNING yet" if state.is_held else None)
    if state.is_held and is_alive(state.worker) is False:
        if state.deployment:
            return f"{status} ({_without_jobmaster(state)}; its workers go on until the next one)"
        return f"{status} (its driver is gone; the next run goes on)"
    return status


def _without_jobmaster(state: JobState) -> str:
    """Who has prepared it leaves by design: in that epoch there was no JobMaster yet."""
    return "no JobMaster has come yet" if state.epoch == state.deployment else "its JobMaster is gone"
