"""Where a JobMaster takes what somebody asks of the job through its storage (R22), and says what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.effects import TryUpgrade
from airflow_provider_ckpt.coordinator.messages import (
    Message,
    ReconfigureRequested,
    RescaleRequested,
    StopRequested,
    UpgradeRequested,
)
from airflow_provider_ckpt.coordinator.requests import UPGRADE
from airflow_provider_ckpt.jobmaster.clock import Clock
from airflow_provider_ckpt.jobmaster.decided import still_wanted, was_decided
from airflow_provider_ckpt.jobmaster.inbox import Inbox
from airflow_provider_ckpt.jobmaster.job_identity import JobIdentity
from airflow_provider_ckpt.jobmaster.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.request_reader import RequestReader
from airflow_provider_ckpt.jobmaster.served_requests import ServedRequests
from airflow_provider_ckpt.jobmaster.upgrades import Upgrades
from airflow_provider_ckpt.journal.events import Event, RequestAnswered, StatusChanged
from airflow_provider_ckpt.journal.requests import Changes, Request, UpgradeRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import AS_IT_IS, RequestOutcome
from airflow_provider_ckpt.model.vertex_settings import VertexSettings

PATIENCE = 120.0
"""Seconds in which a job that was taken over comes to run, before a change of it is refused; at most half of those
after which a job that does not is given up."""
_HAS_WORKERS = (
    "workers run the job, each with a file of its own: stop it, and run the new version (docs/changes.md says what may "
    "be another one)"
)


class RequestDesk:
    """Of one JobMaster, in its loop. ``tell``: what the coordinator hears; ``append``: into the journal; ``warn``:
    shows a message."""

    def __init__(
        self,
        identity: JobIdentity,
        coordinator: Coordinator,
        journal: OwnedJournal,
        upgrades: Upgrades | None,
        inbox: Inbox,
        clock: Clock,
        *,
        tell: Callable[[Message], None],
        append: Callable[[Event], None],
        warn: Callable[[str], None],
    ) -> None:
        self._job, self._coordinator, self._journal = identity, coordinator, journal
        self._upgrades, self._asked = upgrades, dict[str, UpgradeRequest]()
        self._upgraded = identity.upgraded
        """Until that is answered."""
        self._inbox, self._clock, self._tell, self._append = inbox, clock, tell, append
        self._served = ServedRequests(identity.storage, identity.job_id)
        since = identity.deployment or (identity.epoch if identity.upgraded is None else identity.upgraded.since)
        self._reader = RequestReader(identity.storage, identity.job_id, identity.epoch, since, warn, clock.now)
        self._patient_until: float | None = None

    def answered(self, event: RequestAnswered) -> None:
        self._served.answered(event)

    def look(self, now: float, *, is_running: bool) -> None:
        """Take what was asked since the last look. ``is_running``: the job was RUNNING in this epoch. The caller has
        asked just now whether the journal has a later epoch."""
        self._served.forget(self._journal.flush)
        self._reader.delete_others()
        requests = self._reader.pending(self._journal.state.answered)
        holds = self._holds_changes(requests, now, is_running=is_running)
        for request in requests:
            if was_decided(self._journal.state, request):
                self._answer(request, RequestOutcome.completed("it was decided before, and later runs go by it"))
            elif holds and request.is_change:
                continue
            elif request.kind == "drain" and self._coordinator.upgrading is not None:
                continue  # it is the other version that ends then, or this one, if nothing comes of it
            elif self._is_so(request):
                self._answer(request, RequestOutcome.completed(AS_IT_IS))
            elif request.kind in ("stop", "drain"):
                asked = StopRequested(request.kind, request.name, request.leaves, request.at_once)  # type: ignore[arg-type]
                self._tell(asked)
            elif request.rescale is not None:
                self._tell(RescaleRequested(request.rescale.uid, request.rescale.parallelism, request.name))
            elif request.kind == "reconfigure":
                self._tell(ReconfigureRequested(self._still_wanted(request.changes), request.name))
            elif request.upgrade is not None and self._upgrades is not None:
                self._asked[request.name] = request.upgrade
                self._tell(UpgradeRequested(request.name))
            elif request.upgrade is not None:
                self._answer(request, RequestOutcome.refused(_HAS_WORKERS))
            else:
                self._answer(request, RequestOutcome.refused(f"{request.problem}"))

    def _still_wanted(self, changes: Changes) -> Changes:
        """While another change is under way what is decided is not so yet."""
        return changes if self._coordinator.is_changing else still_wanted(self._journal.state, changes)

    def _is_so(self, request: Request) -> bool:
        of_source = request.rescale
        if of_source is not None:
            changes: Changes = {of_source.uid: VertexSettings(parallelism=of_source.parallelism)}
        else:
            changes = request.changes
        return bool(changes) and not self._still_wanted(changes)

    def _holds_changes(self, requests: Iterable[Request], now: float, *, is_running: bool) -> bool:
        """A change that was asked of the JobMaster before, which may have taken it, and died, waits for the job to run,
        and what was asked since waits for it: done first, it would be undone by what it was to take the place of. Not
        for ever: behind that a change is refused by the name of who does not run."""
        if not any(one.is_change and one.epoch < self._job.epoch for one in requests):
            return False
        if self._patient_until is None:
            self._patient_until = now + min(PATIENCE, self._job.options.checkpoint_timeout / 2)
        return not is_running and now < self._patient_until

    def _answer(self, request: Request, outcome: RequestOutcome) -> None:
        self._append(RequestAnswered(request.name, request.kind, outcome, self._clock.wall()))

    def answer_upgrade(self, event: StatusChanged) -> None:
        """Whoever asked for this version hears of it when the job runs, or before it tells an end."""
        upgraded = self._upgraded
        if upgraded is None or event.status is JobStatus.CREATED:
            return
        self._upgraded = None
        outcome = upgraded.outcome
        if event.status in (JobStatus.FAILED, JobStatus.RESTARTING):
            outcome = RequestOutcome.failed(f"the job is {event.status} before it ran again: {event.cause}")
        self._append(RequestAnswered(upgraded.request, UPGRADE, outcome, self._clock.wall()))

    def try_upgrade(self, effect: TryUpgrade) -> None:
        assert self._upgrades is not None
        self._upgrades.submit(effect.request, self._asked[effect.request], self._inbox.put)
