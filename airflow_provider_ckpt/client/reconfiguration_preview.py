"""Changes requested for a running job, and a preview of their effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.change_scope import by_vertex
from airflow_provider_ckpt.coordinator.errors import ReconfigurationRefusedError
from airflow_provider_ckpt.job.errors import NotReconfigurableError
from airflow_provider_ckpt.job.reconfiguration import Reconfiguration, as_numbers
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.vertex_settings import Settings, VertexSettings, merged, query_changes, rescales

__all__ = ["AffectedVertex", "Reconfiguration", "ReconfigurationPreview", "RescaledSource", "as_numbers", "preview"]


@dataclass(frozen=True)
class AffectedVertex:
    """A query that a reconfiguration would pause.

    Args:
        before: Current settings that would change: name → value. A missing name has the declared value.
        after: New settings: name → value; None for the declared value. ``logic`` may be the same as before, because its
            file is read again.
        state: (current, new) number of state partitions; None if the state would not be repartitioned.
    """

    vertex: str
    before: Mapping[str, object]
    after: Mapping[str, object]
    state: tuple[int | None, int] | None


@dataclass(frozen=True)
class RescaledSource:
    """A source with splits that a reconfiguration would rescale.

    Args:
        before: The current number of subtasks; None if unknown.
        after: The new number of subtasks.
        consumers: The queries that would pause to read additional subtasks; empty if the number does not increase.
    """

    source: str
    before: int | None
    after: int
    consumers: tuple[str, ...]


@dataclass(frozen=True)
class ReconfigurationPreview:
    """The effect of a reconfiguration: queries that would pause or continue, and sources that would be rescaled."""

    affected: tuple[AffectedVertex, ...]
    unaffected: tuple[str, ...]
    rescaled: tuple[RescaledSource, ...] = ()


def preview(state: JobState, changes: Mapping[str, VertexSettings]) -> ReconfigurationPreview:
    """Return the effect of ``changes``, from the journal alone. Only the driver can try whether the new queries fit.

    Raises NotReconfigurableError if the job cannot have the changes.
    """
    try:
        change = by_vertex(state.graph(), changes)
    except ReconfigurationRefusedError as error:
        raise NotReconfigurableError(uid=", ".join(changes) or "nothing", problem=error.data["why"]) from None
    queries = query_changes(change)
    if queries and state.is_batch:
        problem = "the job is in batch mode, and its queries read all there is and end"
        raise NotReconfigurableError(uid=", ".join(queries), problem=problem)
    affected = []
    for uid, query in queries.items():
        definition = None if state.plan is None else state.plan.definition.vertices.get(uid)
        if query.state_partitions is not None and definition is not None and not definition.stateful:
            raise NotReconfigurableError(uid=uid, problem="it keeps no state that could be repartitioned")
        parts = None if definition is None else definition.shuffle_partitions
        repartition = None if query.state_partitions in (None, parts) else (parts, query.state_partitions)
        affected.append(AffectedVertex(uid, *_differences(state.settings, uid, query), repartition))
    rescaled = tuple(_rescaled(state, uid, wanted) for uid, wanted in rescales(change).items())
    paused = {*change, *(name for source in rescaled for name in source.consumers)}
    unaffected = tuple(vertex.uid for vertex in state.graph().vertices if vertex.uid not in paused)
    return ReconfigurationPreview(tuple(affected), unaffected, rescaled)


def _differences(settings: Settings, uid: str, change: VertexSettings) -> tuple[dict[str, object], dict[str, object]]:
    current, changed = settings.get(uid, VertexSettings()), merged(settings, {uid: change}).get(uid, VertexSettings())
    current_values, changed_values = current.changed_values(), changed.changed_values()
    names = [
        name
        for name in {**current_values, **changed_values}
        if name not in {"logic", "digests"} and current_values.get(name) != changed_values.get(name)
    ]
    before, after = (
        {name: current_values[name] for name in names if name in current_values},
        {name: changed_values.get(name) for name in names},
    )
    if change.logic:
        before |= {"logic": {uid: current.logic[uid] for uid in change.logic if uid in current.logic}}
        after |= {"logic": {uid: changed.logic.get(uid) for uid in change.logic}}
    return before, after


def _rescaled(state: JobState, uid: str, wanted: int) -> RescaledSource:
    source = None if state.plan is None else state.plan.definition.sources.get(uid)
    declared = None if source is None else source.parallelism
    before = declared if state.plan is None else state.plan.rescaled.get(uid, declared)
    grows = before is None or wanted > before
    readers = tuple(edge.consumer for edge in state.graph().outputs(uid)) if grows else ()
    return RescaledSource(uid, before, wanted, readers)
