"""The answers to requests to stop and to drain (``journal.requests``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import HISTORY, JournalEvent, StatePart
from airflow_provider_ckpt.model.json_form import LATER, UNRECORDED
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult


@dataclass
class AnsweredRequests(StatePart):
    answered: set[str] = field(default_factory=set)
    outcomes: dict[str, RequestOutcome] = field(default_factory=dict, metadata=LATER)
    """Request -> the last word on it, of the last ``HISTORY``; one that was only taken so far is in ``answered``
    alone."""
    draining: bool = False
    """A drain was accepted, in this or an earlier epoch: the next driver goes on with it."""
    deployment: Count = field(default=0, metadata=LATER)
    """The epoch of the planner whose workers run the job, 0 if none do: it holds for one JobMaster after the other,
    until a driver takes the job over, or it ends (W4)."""
    taken: set[str] = field(default_factory=set, metadata=LATER)
    """Of ``answered``: requests that a JobMaster of the deployment has taken, and said no last word on."""
    taken_again: set[str] = field(default_factory=set, compare=False, metadata=UNRECORDED)
    """Those that the JobMaster before the one of now had taken."""


@dataclass(frozen=True)
class RequestAnswered(JournalEvent):
    """What became of a stop or drain request that came through the storage URI (R22)."""

    request: str
    kind: str
    outcome: RequestOutcome
    at: Instant

    @property
    def decides(self) -> bool:
        """A drain is gone on with by later drivers. What is said of the others is for those who asked."""
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


def take_again(state: AnsweredRequests) -> None:
    """Who had taken them is gone, and who comes after it in the same deployment takes them (W20)."""
    state.answered -= state.taken
    state.taken_again = set(state.taken)
    state.taken.clear()


def forget_answered(state: AnsweredRequests) -> None:
    """Another driver takes no request that was for one before it (R22): of those that were answered only what was said
    is remembered, as long as it is."""
    state.answered &= state.outcomes.keys()


def _remember_first(history: dict[str, RequestOutcome], name: str, value: RequestOutcome) -> None:
    """The oldest entry goes first: names are in no order."""
    history[name] = value
    if len(history) > HISTORY:
        del history[next(iter(history))]
