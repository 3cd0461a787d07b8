"""Clean-up steps after the journal has the end of a run. A step that fails does not change that end."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_ckpt.errors import OvertakenError, kind_and_text
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.report.status_line import LineKind
from airflow_provider_ckpt.report.status_reporter import StatusReporter

log = logging.getLogger(__name__)


def see_to(status: StatusReporter, state: JobState, what: str, step: Callable[[], object]) -> None:
    """Run ``step``. If it fails, only log it and report a warning.

    The job is done, so a failed clean-up must not fail the run. The next start under this id takes each step again.

    Args:
        what: Name of the step for log and warning.
    """
    try:
        step()
    except OvertakenError as error:  # the later driver does the rest, and has reported it
        log.info("after the end of job %s: %s: %s", state.job_id, what, error)
        log.debug("after the end of job %s", state.job_id, exc_info=error)
    except Exception as error:  # the storage, Spark or a sink may raise anything
        log.warning("after the end of job %s: %s", state.job_id, what, exc_info=error)
        reason = kind_and_text(error)
        told = f"the run has ended, but {what} failed: {reason}; the next start tries again"
        status.say(LineKind.WARNING, told, state)
