"""What is seen to once the end of a run is in the journal. The end stands, whatever comes of this."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_ckpt.errors import OvertakenError, kind_and_text
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.report.status_line import LineKind
from airflow_provider_ckpt.report.status_reporter import StatusReporter

log = logging.getLogger(__name__)


def see_to(status: StatusReporter, state: JobState, what: str, step: Callable[[], object]) -> None:
    """Take ``step``. If it fails, that is told (kind "warning") and no more: a job that is done would otherwise be
    called failed for what nobody waits for, and each step is taken again by the next start under this id."""
    try:
        step()
    except OvertakenError as error:  # the later driver does what is left, and has said so
        log.info("after the end of job %s: %s: %s", state.job_id, what, error)
        log.debug("after the end of job %s", state.job_id, exc_info=error)
    except Exception as error:  # of the storage, of Spark, of a sink
        log.warning("after the end of job %s: %s", state.job_id, what, exc_info=error)
        reason = kind_and_text(error)
        told = f"the run has ended, but {what} failed: {reason}; the next start tries again"
        status.say(LineKind.WARNING, told, state)
