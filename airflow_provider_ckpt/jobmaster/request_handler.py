"""Handling of requests that users put into the job's storage (R22): their answers, and the deletion of their files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.protocol.effects import TryUpgrade
from airflow_provider_ckpt.coordinator.protocol.messages import Message
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.jobmaster.applied_changes import unapplied_changes, was_decided
from airflow_provider_ckpt.jobmaster.clock import Clock
from airflow_provider_ckpt.jobmaster.gateway import Inbox
from airflow_provider_ckpt.jobmaster.job_identity import JobIdentity, Upgrades
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.request_reader import RequestReader
from airflow_provider_ckpt.journal.events import Event, RequestAnswered, StatusChanged
from airflow_provider_ckpt.model.job_request import (
    DrainRequest,
    InvalidRequest,
    JobRequest,
    ReconfigureRequest,
    StopRequest,
    UpgradeRequest,
)
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import AS_IT_IS, RequestOutcome
from airflow_provider_ckpt.storage.layout import request_path
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)
HOLD_SECONDS = 120.0
"""Maximum seconds that a change requested before a takeover waits for the job to run. If half of ``checkpoint_timeout``
is less, that is the maximum."""
_HAS_WORKERS = (
    "workers run the job, each with a file of its own: stop it, and run the new version (docs/changes.md lists what "
    "may change)"
)


class RequestHandler:
    """The request handling of one JobMaster, called from its loop.

    Args:
        upgrades: Loader of other versions; None if this kind of run has no upgrades.
        handle: Function that passes a message to the coordinator.
    """

    def __init__(
        self,
        identity: JobIdentity,
        coordinator: Coordinator,
        journal: OwnedJournal,
        upgrades: Upgrades | None,
        inbox: Inbox,
        clock: Clock,
        *,
        handle: Callable[[Message], None],
        append: Callable[[Event], None],
        warn: Callable[[str], None],
    ) -> None:
        self._job, self._coordinator, self._journal = identity, coordinator, journal
        self._upgrades = upgrades
        self._upgraded = identity.upgraded
        """The upgrade that started this version, until its request is answered; then None."""
        self._inbox, self._clock, self._handle, self._append = inbox, clock, handle, append
        self._served = ServedRequests(identity.storage, identity.job_id)
        since_epoch = identity.deployment or (
            identity.epoch if identity.upgraded is None else identity.upgraded.since_epoch
        )
        self._reader = RequestReader(identity.storage, identity.job_id, identity.epoch, since_epoch, warn, clock.now)
        self._hold_until: float | None = None

    def answered(self, event: RequestAnswered) -> None:
        self._served.answered(event)

    def poll(self, now: float, *, is_running: bool) -> None:
        """Handle all new requests. The caller must have just checked that the journal has no later epoch.

        ``is_running`` is True if the job has been RUNNING at any time in this epoch.
        """
        self._served.delete_files(self._journal.flush)
        self._reader.delete_others()
        requests = self._reader.pending(self._journal.state.answered)
        holds = self._holds_changes(requests, now, is_running=is_running)
        for request in requests:
            if was_decided(self._journal.state, request):
                self._answer(request, RequestOutcome.completed("it was decided before, and later runs apply it"))
            elif holds and request.is_change:
                continue
            elif isinstance(request, DrainRequest) and self._coordinator.upgrading is not None:
                continue  # the new version drains after the upgrade, or this version if the upgrade fails
            elif (outcome := self._early_outcome(request := self._without_applied(request))) is not None:
                self._answer(request, outcome)
            else:
                self._handle(request)

    def _without_applied(self, request: JobRequest) -> JobRequest:
        """Return the request without changes that are in effect.

        While another change is in progress, return it unchanged.
        """
        if not isinstance(request, ReconfigureRequest) or self._coordinator.is_changing:
            return request
        return replace(request, changes=unapplied_changes(self._journal.state, request.changes))

    def _early_outcome(self, request: JobRequest) -> RequestOutcome | None:
        """Return the outcome of a request that is decided here; None if the coordinator must decide the request."""
        match request:
            case InvalidRequest():
                return RequestOutcome.refused(request.problem)
            case ReconfigureRequest() if not request.changes:
                return RequestOutcome.completed(AS_IT_IS)
            case UpgradeRequest() if self._upgrades is None:
                return RequestOutcome.refused(_HAS_WORKERS)
        return None

    def _holds_changes(self, requests: Iterable[JobRequest], now: float, *, is_running: bool) -> bool:
        """Return whether changes must wait until the job runs.

        A change that the previous JobMaster accepted before it died waits until the job runs. Later changes wait, too,
        because changes must keep their order. After HOLD_SECONDS the coordinator gets all of them, and refuses them
        with the names of the subtasks that do not run.
        """
        if not any(request.is_change and request.epoch < self._job.epoch for request in requests):
            return False
        if self._hold_until is None:
            self._hold_until = now + min(HOLD_SECONDS, self._job.options.checkpoint_timeout / 2)
        return not is_running and now < self._hold_until

    def _answer(self, request: JobRequest, outcome: RequestOutcome) -> None:
        self._append(RequestAnswered(request.name, request.kind, outcome, self._clock.wall()))

    def answer_upgrade(self, event: StatusChanged) -> None:
        """Answer the upgrade request that started this version, when the job runs, or before its end is journaled.

        Do nothing if no upgrade started this version, or its request is answered.
        """
        upgraded = self._upgraded
        if upgraded is None or event.status is JobStatus.CREATED:
            return
        self._upgraded = None
        outcome = upgraded.outcome
        if event.status in (JobStatus.FAILED, JobStatus.RESTARTING):
            outcome = RequestOutcome.failed(f"the job is {event.status} before it ran again: {event.cause}")
        self._append(RequestAnswered(upgraded.request, UpgradeRequest.kind, outcome, self._clock.wall()))

    def try_upgrade(self, effect: TryUpgrade) -> None:
        assert self._upgrades is not None
        self._upgrades.submit(effect.request, self._inbox.put)


class ServedRequests:
    """The answered requests whose files must be deleted. Stop and drain requests stay: users may withdraw them."""

    def __init__(self, storage: Storage, job_id: str) -> None:
        self._storage, self._job_id = storage, job_id
        self._names: list[str] = []

    def answered(self, event: RequestAnswered) -> None:
        if event.kind not in (StopRequest.kind, DrainRequest.kind) and event.outcome.is_last:
            self._names.append(event.request)

    def delete_files(self, flush: Callable[[], None]) -> None:
        """Delete the files of answered requests. ``flush`` makes the answers durable first."""
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
