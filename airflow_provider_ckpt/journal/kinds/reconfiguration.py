"""Reconfigurations of a running job: the changed settings, and the duration of the last changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_ckpt.journal.kinds.epochs import Epochs
from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult
from airflow_provider_ckpt.model.vertex_settings import Settings, VertexSettings

REMEMBERED = 20
"""Maximum number of reconfigurations in the state. They are for display, and the oldest is dropped first."""


@dataclass(frozen=True)
class PhaseTimes:
    """Durations of a reconfiguration for one vertex, in seconds. The vertex is paused during ``update`` and ``resume``.

    Args:
        prepare: Time to make and try the new query, while the old query runs.
        sync: Time until the vertex is paused.
        update: Time until all affected vertices are paused and the change is in the journal.
        resume: Time until the vertex runs again.
    """

    prepare: float
    sync: float
    update: float
    resume: float


@dataclass
class Reconfigurations(Epochs):
    reconfigured: Count = field(default=0, metadata=OMIT_EMPTY)
    """Sequence number of the last decided change, from 1; 0 if there was none."""
    reconfigured_at: Instant = field(default=0.0, metadata=OMIT_EMPTY)
    """Time when the last change was decided; 0 if there was none."""
    reconfigured_for: str | None = field(default=None, metadata=OMIT_EMPTY)
    """Name of the request for the last decided change; None if there was no request."""
    reconfigurations: list[ReconfigurationEnded] = field(default_factory=list, metadata=OMIT_EMPTY)
    """The last decided changes, oldest first. The outcome of a change is ACCEPTED until its queries run again. It
    stays ACCEPTED if the driver dies before that. Every later run applies the change in both cases."""


@dataclass(frozen=True)
class GraphChange:
    """A change of the graph during an epoch, by a rescale.

    Args:
        rescaled: Source → requested number of its subtasks.
        hosts: New subtask → subtask in whose process it runs; empty without workers.
    """

    graph: JobGraph
    rescaled: Mapping[str, int]
    hosts: Mapping[SubtaskId, SubtaskId] = field(default_factory=dict, metadata=OMIT_EMPTY)


@dataclass(frozen=True)
class Reconfigured(JournalEvent):
    """The job runs with ``settings`` and ``graph`` from here on, also in later runs. This event is the commit point of
    the change (R21).

    Args:
        number: Sequence number of the change, from 1 over the life of the job.
        settings: Vertex → all its changed settings, by this change and by earlier changes.
        graph: New graph of a rescale of sources with splits; None if the change rescales no source.
        by: Name of the controller that asked for the change; None if a user asked.
        request: Name of the user's request for the change, or None. The change is valid even if the driver dies before
            it answers the request.
    """

    number: Count
    settings: Mapping[str, VertexSettings]
    at: Instant
    graph: GraphChange | None = field(default=None, metadata=OMIT_EMPTY)
    by: str | None = field(default=None, metadata=OMIT_EMPTY)
    request: str | None = field(default=None, metadata=OMIT_EMPTY)

    def apply(self, state: Reconfigurations) -> None:
        state.reconfigured, state.reconfigured_at, state.reconfigured_for = self.number, self.at, self.request
        if state.plan is not None:
            if (change := self.graph) is not None:
                rescaled = {**state.plan.rescaled, **change.rescaled}
                hosts, waiting = {**state.plan.hosts, **change.hosts}, (*state.plan.waiting, *change.hosts)
                state.plan = replace(state.plan, graph=change.graph, rescaled=rescaled, hosts=hosts, waiting=waiting)
            definition = state.plan.definition
            vertices = {
                uid: replace(vertex, shuffle_partitions=parts)
                if (parts := _state_partitions(self.settings, uid)) is not None and vertex.stateful
                else vertex
                for uid, vertex in definition.vertices.items()
            }
            definition = replace(definition, vertices=vertices)
            state.plan = replace(state.plan, settings=self.settings, definition=definition)
        _remember(state, ReconfigurationEnded(self.number, self.request, _DECIDED, {}, self.at, self.by))


@dataclass(frozen=True)
class ReconfigurationEnded(JournalEvent):
    """The outcome of a reconfiguration, journaled when every affected vertex runs again, or when it was not applied.

    Args:
        number: Sequence number of the change (:class:`Reconfigured`); 0 if the change was not applied.
        took: Vertex → durations of the change's phases.
        by: Name of the controller that asked for the change; None if a user asked.
        why: The controller's reason, or None.
    """

    number: Count
    request: str | None
    outcome: RequestOutcome
    took: Mapping[str, PhaseTimes]
    at: Instant
    by: str | None = field(default=None, metadata=OMIT_EMPTY)
    why: str | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def decides(self) -> bool:
        """Return False, because :class:`Reconfigured` has decided the change. This event only reports the outcome."""
        return False

    def apply(self, state: Reconfigurations) -> None:
        if self.number:
            _remember(state, self)


_DECIDED = RequestOutcome(RequestResult.ACCEPTED, "decided; every later attempt applies it")


def _remember(state: Reconfigurations, reconfiguration: ReconfigurationEnded) -> None:
    """Add a reconfiguration to the history. It replaces the earlier record with the same ``number``."""
    others = [earlier for earlier in state.reconfigurations if earlier.number != reconfiguration.number]
    state.reconfigurations = [*others, reconfiguration][-REMEMBERED:]


def _state_partitions(settings: Settings, uid: str) -> int | None:
    setting = settings.get(uid)
    return None if setting is None else setting.state_partitions
