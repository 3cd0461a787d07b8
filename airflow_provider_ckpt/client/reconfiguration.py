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
        vertex: The query.
        before: Current settings that would change, by name. A missing name has the declared value.
        after: New settings by name; None means the declared value. ``logic`` of a requested operator may be the same as
            before, because its file is read again.
        state: (current, new) number of state partitions if the state would be repartitioned.
    """

    vertex: str
    before: Mapping[str, object]
    after: Mapping[str, object]
    state: tuple[int | None, int] | None


@dataclass(frozen=True)
class RescaledSource:
    """A source with splits that another number of subtasks would read.

    Args:
        source: The source.
        before: The current number of subtasks; None if unknown.
        after: The new number of subtasks.
        consumers: The queries that would pause to read the new subtasks, if there are more subtasks than before.
    """

    source: str
    before: int | None
    after: int
    consumers: tuple[str, ...]


@dataclass(frozen=True)
class ReconfigurationPreview:
    """The effect of a reconfiguration.

    Args:
        affected: The queries that would pause.
        unaffected: The queries that would continue without a pause.
        rescaled: The sources with splits that would get another parallelism.
    """

    affected: tuple[AffectedVertex, ...]
    unaffected: tuple[str, ...]
    rescaled: tuple[RescaledSource, ...] = ()


def preview(state: JobState, changes: Mapping[str, VertexSettings]) -> ReconfigurationPreview:
    """Return the effect of ``changes``, from the journal alone. The driver is not asked.

    Only the driver can try whether the new queries fit.

    Raises NotReconfigurableError.
    """
    try:
        change = by_vertex(state.graph(), changes)
    except ReconfigurationRefusedError as error:
        raise NotReconfigurableError(uid=", ".join(changes) or "nothing", problem=error.data["why"]) from None
    queries = query_changes(change)
    if queries and state.is_batch:
        problem = "the job is in batch mode, and its queries read all there is and end"
        raise NotReconfigurableError(uid=", ".join(queries), problem=problem)
    found = []
    for uid, query in queries.items():
        known = None if state.plan is None else state.plan.definition.vertices.get(uid)
        if query.state_partitions is not None and known is not None and not known.stateful:
            raise NotReconfigurableError(uid=uid, problem="it keeps no state that could be repartitioned")
        parts = None if known is None else known.shuffle_partitions
        moves = None if query.state_partitions in (None, parts) else (parts, query.state_partitions)
        found.append(AffectedVertex(uid, *_differences(state.settings, uid, query), moves))
    scaled = tuple(_rescaled(state, uid, wanted) for uid, wanted in rescales(change).items())
    stands_still = {*change, *(name for one in scaled for name in one.consumers)}
    others = tuple(vertex.uid for vertex in state.graph().vertices if vertex.uid not in stands_still)
    return ReconfigurationPreview(tuple(found), others, scaled)


def _differences(settings: Settings, uid: str, change: VertexSettings) -> tuple[dict[str, object], dict[str, object]]:
    now, then = settings.get(uid, VertexSettings()), merged(settings, {uid: change}).get(uid, VertexSettings())
    had, has = now.changed_values(), then.changed_values()
    names = [one for one in {**had, **has} if one not in {"logic", "digests"} and had.get(one) != has.get(one)]
    before, after = {name: had[name] for name in names if name in had}, {name: has.get(name) for name in names}
    if change.logic:
        before |= {"logic": {one: now.logic[one] for one in change.logic if one in now.logic}}
        after |= {"logic": {one: then.logic.get(one) for one in change.logic}}
    return before, after


def _rescaled(state: JobState, uid: str, wanted: int) -> RescaledSource:
    source = None if state.plan is None else state.plan.definition.sources.get(uid)
    declared = None if source is None else source.parallelism
    before = declared if state.plan is None else state.plan.rescaled.get(uid, declared)
    grows = before is None or wanted > before
    readers = tuple(edge.consumer for edge in state.graph().outputs(uid)) if grows else ()
    return RescaledSource(uid, before, wanted, readers)
