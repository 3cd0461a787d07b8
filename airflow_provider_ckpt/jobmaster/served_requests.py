"""Deletion of request files that are no longer needed: the job has answered them for good, or they were invalid."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.journal.events import RequestAnswered
from airflow_provider_ckpt.journal.requests import CHANGES, INVALID
from airflow_provider_ckpt.storage.layout import request_path
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)


class ServedRequests:
    """The answered requests of one JobMaster.

    A job may be changed each hour for as long as a driver runs, and the requests are listed each second. Requests to
    stop or drain stay for the next driver, because the user may withdraw them.
    """

    def __init__(self, storage: Storage, job_id: str) -> None:
        self._storage, self._job_id = storage, job_id
        self._names: list[str] = []

    def answered(self, event: RequestAnswered) -> None:
        if event.kind in (*CHANGES, INVALID) and event.outcome.is_last:
            self._names.append(event.request)

    def forget(self, flush: Callable[[], None]) -> None:
        """Delete the files of answered requests.

        Args:
            flush: Function that makes the answers durable. Without an answer the next driver would take the request
                again.
        """
        if not self._names:
            return
        flush()
        while self._names:
            try:
                self._storage.delete(request_path(self._job_id, self._names[-1]))
            except CkptError as error:
                log.warning("request %s, which was answered, stays for now: %s", self._names[-1], error)
                if error.retryable:
                    break
            self._names.pop()  # a file that may not be deleted stays, and the others are still deleted
