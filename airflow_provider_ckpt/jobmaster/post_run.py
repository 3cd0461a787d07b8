"""Clean-up after a run whose end is in the journal. The clean-up includes files of earlier drivers."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_ckpt.errors import OvertakenError, kind_and_text
from airflow_provider_ckpt.journal.request_files import forget_requests
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.status.status_line import LineKind
from airflow_provider_ckpt.status.status_reporter import StatusReporter
from airflow_provider_ckpt.storage.layout import deployment_path, deployments_path, job_path
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.removal import best_effort
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)


def post_run(status: StatusReporter, state: JobState, name: str, step: Callable[[], object]) -> None:
    """Run ``step``. Log and report its error without raising it, because the job's next start repeats the step."""
    try:
        step()
    except OvertakenError as error:  # the later driver does the rest, and has reported it
        log.info("after the end of job %s: %s: %s", state.job_id, name, error)
        log.debug("after the end of job %s", state.job_id, exc_info=error)
    except Exception as error:  # the storage, Spark or a sink may raise anything
        log.warning("after the end of job %s: %s", state.job_id, name, exc_info=error)
        reason = kind_and_text(error)
        message = f"the run has ended, but {name} failed: {reason}; the next start tries again"
        status.report(LineKind.WARNING, message, state)


def tidy_up(storage: Storage, job_id: str, epoch: int) -> None:
    """Delete temporary files of killed writers, requests to earlier drivers, and messages of earlier deployments."""
    with best_effort("the requests to earlier drivers"):
        forget_requests(storage, job_id, epoch)
    with best_effort("the messages of earlier deployments"):
        _forget_deployments(storage, job_id, epoch)
    with best_effort("leftovers of probes"):
        storage.collect_temporary("", LEFT_BEHIND, deep=False)
    with best_effort("leftovers of killed writers"):
        storage.collect_temporary(job_path(job_id), LEFT_BEHIND)


def _forget_deployments(storage: Storage, job_id: str, epoch: int) -> None:
    """Delete the messages of deployments that are over, even if some of their workers still live."""
    for name in storage.list(deployments_path(job_id)):
        if name.isdecimal() and int(name) < epoch:
            storage.delete_tree(deployment_path(job_id, int(name)))
