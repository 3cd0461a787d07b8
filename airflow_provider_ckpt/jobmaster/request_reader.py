"""Polling of the requests to one JobMaster, in a folder that other users write to (R22).

No file there stops, hangs or slows the driver. A file that is no request results in one warning, and is read again
later. A poll reads a limited number of files. Requests that no driver will read are deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.journal.request_files import (
    MOST_FILES,
    in_order,
    read_request,
    request_names,
)
from airflow_provider_ckpt.model.job_request import InvalidRequest, JobRequest
from airflow_provider_ckpt.storage.errors import StorageDeniedError, StorageFailedError
from airflow_provider_ckpt.storage.layout import request_path, requests_path
from airflow_provider_ckpt.storage.storage import Storage

READS = 100
"""Maximum number of files that one poll reads, or deletes. Other files wait for the next poll."""
SECONDS = 1.0
"""Maximum duration of a poll in seconds, because an object store may be slow. Other files wait for the next poll."""
FIRST_RETRY, LAST_RETRY = 10.0, 600.0
"""Seconds between two reads of a file that is no request. The time doubles from the first value to the last."""
MOST_WARNINGS = 20
"""Maximum number of files that warnings name, so that thousands of files do not fill the log."""


class RequestReader:
    """The request poll of one JobMaster, which handles requests for epochs from ``since_epoch`` to ``epoch``."""

    def __init__(
        self,
        storage: Storage,
        job_id: str,
        epoch: int,
        since_epoch: int,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage, self._job_id, self._epoch, self._since_epoch = storage, job_id, epoch, since_epoch
        self._warn_once, self._clock = warn, clock
        self._warned: set[str] = set()
        self._warned_of_folder: set[str] = set()
        self._retries: dict[str, tuple[float, float]] = {}
        """Unreadable file → (time of its next read, seconds of the wait before that read)."""
        self._earlier: set[str] = set()
        self._later: set[str] = set()
        """Requests for epochs after ``epoch``. ``_earlier`` has requests for epochs before ``since_epoch``."""

    def pending(self, answered: Collection[str]) -> list[JobRequest]:
        """Return the unanswered requests to this JobMaster, in the order of :func:`in_order`, without unreadable files.

        Raises storage errors, except errors of a single file.
        """
        names = self._names()
        self._forget_absent(names)
        now, budget, requests = self._clock(), READS, list[JobRequest]()
        for name in names:
            if name in answered or name in self._earlier or name in self._later or not self._is_due(name, now):
                continue
            if not budget or self._clock() - now > SECONDS:
                break
            budget -= 1
            request = read_request(self._storage, self._job_id, name, self._epoch)
            if request is None:
                self._note_absent(name, now)
            elif self._is_taken(request, now):
                requests.append(request)
        return in_order(requests)

    def delete_others(self) -> None:
        """Delete the requests for other epochs.

        Call this after the poll that found the requests, and after a check that the journal has no later epoch. A
        request for a later epoch is then for a driver that never existed.
        """
        began = self._clock()
        for name in sorted(self._earlier | self._later)[:READS]:
            if self._clock() - began > SECONDS:
                break
            self._earlier.discard(name)
            self._later.discard(name)
            try:
                self._storage.delete(request_path(self._job_id, name))
            except CkptError as error:
                self._warn(name, f"request {name} is for another driver, and cannot be deleted: {error}")
                self._postpone(name, began)

    def _names(self) -> list[str]:
        folder = self._storage.full_uri(requests_path(self._job_id))
        try:
            names = request_names(self._storage, self._job_id)
        except (StorageDeniedError, StorageFailedError) as error:
            self._warn_of_folder("denied", f"no request to this job can be read: {error}")
            return []
        self._warned_of_folder.discard("denied")
        if len(names) >= MOST_FILES:
            message = (
                f"{folder} holds {MOST_FILES} files or more, and only {MOST_FILES} are read. Delete what is no request"
            )
            self._warn_of_folder("full", message)
        return names

    def _forget_absent(self, names: Collection[str]) -> None:
        present = {*names}
        self._earlier &= present
        self._later &= present
        self._retries = {name: retry for name, retry in self._retries.items() if name in present}

    def _is_due(self, name: str, now: float) -> bool:
        return name not in self._retries or self._retries[name][0] <= now

    def _note_absent(self, name: str, now: float) -> None:
        """Retry a listed file that is absent, and warn the second time. The name may be of a folder or a dead link."""
        if name in self._retries:
            self._warn(name, f"{name!r} in requests/ is not taken as a request: there is no file of that name")
        self._postpone(name, now)

    def _is_taken(self, request: JobRequest, now: float) -> bool:
        if isinstance(request, InvalidRequest) and request.is_unreadable:
            self._warn(request.name, f"{request.name!r} in requests/ is not taken as a request: {request.problem}")
            self._postpone(request.name, now)
            return False
        self._retries.pop(request.name, None)
        if request.epoch < self._since_epoch:
            self._earlier.add(request.name)
        elif request.epoch > self._epoch:
            self._later.add(request.name)
        return self._since_epoch <= request.epoch <= self._epoch

    def _postpone(self, name: str, now: float) -> None:
        waited = self._retries[name][1] if name in self._retries else FIRST_RETRY / 2
        wait = min(LAST_RETRY, 2 * waited)
        self._retries[name] = (now + wait, wait)

    def _warn_of_folder(self, problem: str, message: str) -> None:
        if problem not in self._warned_of_folder:
            self._warned_of_folder.add(problem)
            self._warn_once(message)

    def _warn(self, name: str, message: str) -> None:
        """Warn one time for each name, for at most MOST_WARNINGS names.

        The last warning says that there are more files.
        """
        if name in self._warned or len(self._warned) > MOST_WARNINGS:
            return
        self._warned.add(name)
        if len(self._warned) > MOST_WARNINGS:
            message = f"more files in {self._storage.full_uri(requests_path(self._job_id))} are no requests"
        self._warn_once(message)
