"""Answers to requests of users (``journal.request_files``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import HISTORY, JournalEvent, StatePart
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY, UNRECORDED
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult


@dataclass
class AnsweredRequests(StatePart):
    answered: set[str] = field(default_factory=set)
    outcomes: dict[str, RequestOutcome] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Request → its last answer: completed, failed or refused; for at most ``HISTORY`` requests. A request whose only
    answer is "accepted" is in ``answered`` only."""
    draining: bool = False
    """True if a drain was accepted, in this or an earlier epoch. The next driver continues it. A stop or a restore ends
    it."""
    deployment: Count = field(default=0, metadata=OMIT_EMPTY)
    """The epoch of the planner whose workers run the job; 0 without workers. It is the same for all JobMasters of the
    deployment, until a driver takes the job over or the job ends (W4)."""
    taken: set[str] = field(default_factory=set, metadata=OMIT_EMPTY)
    """Requests that a JobMaster of the deployment has accepted, and that still lack their last answer."""
    retaken: set[str] = field(default_factory=set, compare=False, metadata=UNRECORDED)
    """Requests that were in ``taken`` when the current JobMaster claimed the job."""


@dataclass(frozen=True)
class RequestAnswered(JournalEvent):
    """The answer to a request that came through the storage (R22)."""

    request: str
    kind: str
    outcome: RequestOutcome
    at: Instant

    @property
    def decides(self) -> bool:
        """Return True for an accepted drain, because later drivers continue it. Other answers only inform users."""
        return self.kind == "drain" and self.outcome.result is RequestResult.ACCEPTED

    def apply(self, state: AnsweredRequests) -> None:
        state.answered.add(self.request)
        if self.outcome.is_last:
            state.taken.discard(self.request)
            _remember_first(state.outcomes, self.request, self.outcome)
        elif state.deployment:
            state.taken.add(self.request)
        if self.decides:
            state.draining = True


def requeue_taken(state: AnsweredRequests) -> None:
    """Mark requests in ``taken`` as unanswered, so that the next JobMaster of the deployment handles them (W20)."""
    state.answered -= state.taken
    state.retaken = set(state.taken)
    state.taken.clear()


def forget_answered(state: AnsweredRequests) -> None:
    """Remove requests without an outcome from ``answered``. A new driver ignores requests of earlier epochs (R22)."""
    state.answered &= state.outcomes.keys()


def _remember_first(history: dict[str, RequestOutcome], name: str, value: RequestOutcome) -> None:
    """Add ``value`` to a history under ``name``. Drop the entry that was added first if there are more than HISTORY."""
    history[name] = value
    if len(history) > HISTORY:
        del history[next(iter(history))]
