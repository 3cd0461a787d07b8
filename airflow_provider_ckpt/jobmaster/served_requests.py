"""Requests that have got their last answer, and that the job goes on behind, and those that were refused because they
say nothing that can be done: their files are of no use."""

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
    """Of one JobMaster. A job may be changed each hour for as long as a driver runs, and the requests are listed each
    second. Those to stop or to drain stay for the next driver: whoever asked may take them back."""

    def __init__(self, storage: Storage, job_id: str) -> None:
        self._storage, self._job_id = storage, job_id
        self._names: list[str] = []

    def answered(self, event: RequestAnswered) -> None:
        if event.kind in (*CHANGES, INVALID) and event.outcome.is_last:
            self._names.append(event.request)

    def forget(self, flush: Callable[[], None]) -> None:
        """``flush``: makes the answers durable; who comes next takes a request up that has none."""
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
            self._names.pop()  # what must not be deleted stays, and does not hold up the others
