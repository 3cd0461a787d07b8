"""Reconfigurations of a running job: what is changed by now, and what each of the last ones took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_ckpt.journal.kinds.epochs import Epochs, GraphChanged
from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult
from airflow_provider_ckpt.model.vertex_settings import Settings, VertexSettings

REMEMBERED = 20
"""So many of the last reconfigurations are remembered, for display."""


@dataclass(frozen=True)
class PhaseTimes:
    """Of one vertex, in seconds. ``prepare``: the new query is made and tried, while the old one runs; ``sync``: until
    it stands still; ``update``: until all that are affected do, and the change is in the journal; ``resume``: until it
    runs again. The vertex stands still in the last two."""

    prepare: float
    sync: float
    update: float
    resume: float


@dataclass
class Reconfigurations(Epochs):
    reconfigured: Count = field(default=0, metadata=LATER)
    """The number of the last change that is decided."""
    reconfigured_at: Instant = field(default=0.0, metadata=LATER)
    """When that was."""
    reconfigured_for: str | None = field(default=None, metadata=LATER)
    """The request that it was asked by, if it was one."""
    reconfigurations: list[ReconfigurationEnded] = field(default_factory=list, metadata=LATER)
    """The last ones that were decided, oldest first. One is ACCEPTED until it is told how it went: its queries get
    there, or its driver was lost before they did, or it is for the next run. Whoever runs the job goes by it."""


@dataclass(frozen=True)
class Reconfigured(JournalEvent):
    """From here on the job runs with ``settings``, which are all that is changed by now, by vertex: the commit point of
    that change (R21). Later runs go by them, too. ``number``: of the reconfiguration, from 1 in the life of the job;
    ``graph``: of a change that speaks of sources with splits, too, what would be an event of its own without the rest;
    ``by``: the controller that asked for it; ``request``: else the request, which has taken place with this entry,
    whoever is there to answer it."""

    number: Count
    settings: Mapping[str, VertexSettings]
    at: Instant
    graph: GraphChanged | None = field(default=None, metadata=LATER)
    by: str | None = field(default=None, metadata=LATER)
    request: str | None = field(default=None, metadata=LATER)

    def apply(self, state: Reconfigurations) -> None:
        state.reconfigured, state.reconfigured_at, state.reconfigured_for = self.number, self.at, self.request
        if self.graph is not None:
            self.graph.apply(state)
        if state.plan is not None:
            definition = state.plan.definition
            if definition is not None:
                vertices = {
                    uid: replace(one, shuffle_partitions=parts)
                    if (parts := _state_partitions(self.settings, uid)) is not None and one.stateful
                    else one
                    for uid, one in definition.vertices.items()
                }
                definition = replace(definition, vertices=vertices)
            state.plan = replace(state.plan, settings=self.settings, definition=definition)
        _remember(state, ReconfigurationEnded(self.number, self.request, _DECIDED, {}, self.at, self.by))


@dataclass(frozen=True)
class ReconfigurationEnded(JournalEvent):
    """How a reconfiguration went, in which every vertex that was affected runs again. ``number``: 0 if it came to
    nothing; ``took``: by vertex. ``by``: the controller that asked for it, and ``why``."""

    number: Count
    request: str | None
    outcome: RequestOutcome
    took: Mapping[str, PhaseTimes]
    at: Instant
    by: str | None = field(default=None, metadata=LATER)
    why: str | None = field(default=None, metadata=LATER)

    @property
    def decides(self) -> bool:
        return False

    def apply(self, state: Reconfigurations) -> None:
        if self.number:
            _remember(state, self)


_DECIDED = RequestOutcome(RequestResult.ACCEPTED, "decided; every attempt from then on goes by it")


def _remember(state: Reconfigurations, told: ReconfigurationEnded) -> None:
    """What is told of a change takes the place of what was told of it before."""
    others = [one for one in state.reconfigurations if one.number != told.number]
    state.reconfigurations = [*others, told][-REMEMBERED:]


def _state_partitions(settings: Settings, uid: str) -> int | None:
    one = settings.get(uid)
    return None if one is None else one.state_partitions
