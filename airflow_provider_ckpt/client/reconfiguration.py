"""What somebody wants changed in a job while it runs, and what that would come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.client.errors import NotReconfigurableError
from airflow_provider_ckpt.coordinator.affected import by_vertex
from airflow_provider_ckpt.coordinator.errors import ReconfigurationRefusedError
from airflow_provider_ckpt.job.units import Duration, Size, parse_bytes, parse_duration
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.vertex_settings import VertexSettings

_ELSEWHERE = {
    "parallelism": "the subtasks of a source with splits are changed by `ckpt rescale`, and no other has several",
    "executors": "the master gives and takes them: stop the job, and begin it with other Spark settings",
    "executor_cores": "Spark fixes them when the driver starts: stop the job, and begin it with other settings",
    "executor_memory": "Spark fixes it when the driver starts: stop the job, and begin it with other settings",
    "driver_memory": "Spark fixes it when the driver starts: stop the job, and begin it with other settings",
}
"""What cannot be changed so, and what to do instead."""


class Reconfiguration:
    """Collects changes; :meth:`JobClient.reconfigure` asks for all of them as one. ``uid``: of an operator; what is no
    execution logic holds for the whole query in which it runs. The three kinds are Trisk's.

    Every method may be called several times, and returns the object. Raises NotReconfigurableError for what can never
    be done, BadSizeError and BadDurationError.
    """

    def __init__(self) -> None:
        self._changes: dict[str, VertexSettings] = {}

    @property
    def changes(self) -> Mapping[str, VertexSettings]:
        """By operator."""
        return dict(self._changes)

    def assign_workload(
        self,
        uid: str,
        *,
        max_bytes_per_batch: Size | None = None,
        max_files_per_batch: int | None = None,
        trigger_interval: Duration | None = None,
        state_partitions: int | None = None,
        **unknown: object,
    ) -> Reconfiguration:
        """How much of each file source and result partition one micro-batch of the query takes (one of the two), how
        long it is from one micro-batch to the next, and into how many parts its state is cut."""
        _refuse_unknown(uid, unknown, ("max_bytes_per_batch", "max_files_per_batch", *_WORKLOAD))
        if max_bytes_per_batch is not None and max_files_per_batch is not None:
            raise NotReconfigurableError(uid=uid, problem="Spark takes a limit of bytes or one of files, not both")
        size = None if max_bytes_per_batch is None else parse_bytes(max_bytes_per_batch, "max_bytes_per_batch")
        return self._add(
            uid,
            VertexSettings(
                max_bytes_per_batch=_whole(uid, "max_bytes_per_batch", size),
                max_files_per_batch=_whole(uid, "max_files_per_batch", max_files_per_batch),
                trigger_interval=None if trigger_interval is None else parse_duration(trigger_interval, _WORKLOAD[0]),
                state_partitions=_whole(uid, "state_partitions", state_partitions),
            ),
        )

    def assign_resources(self, uid: str, *, pool_weight: int | None = None, **unknown: object) -> Reconfiguration:
        """The weight of the query's pool in Spark's FAIR scheduler: beside others that want all cores, it gets that
        many times what one of weight 1 gets."""
        _refuse_unknown(uid, unknown, ("pool_weight",))
        return self._add(uid, VertexSettings(pool_weight=_whole(uid, "pool_weight", pool_weight)))

    def assign_execution_logic(self, uid: str, job: str) -> Reconfiguration:
        """The function of operator ``uid`` is that of the operator of the same uid in ``job``, a reference as the job
        has one (``path/to/file.py:job``), read where the driver runs."""
        if not isinstance(job, str) or ":" not in job:
            problem = f"{job!r} is no reference of a job, such as pipelines/orders_v2.py:job"
            raise NotReconfigurableError(uid=uid, problem=problem)
        return self._add(uid, VertexSettings(logic={uid: job}))

    def _add(self, uid: str, change: VertexSettings) -> Reconfiguration:
        if change.is_declared:
            raise NotReconfigurableError(uid=uid, problem="nothing is given that is to be changed")
        self._changes[uid] = self._changes.get(uid, VertexSettings()).changed(change)
        return self


_WORKLOAD = ("trigger_interval", "state_partitions")
WHOLE = ("max_files_per_batch", "state_partitions", "pool_weight")


def _refuse_unknown(uid: str, unknown: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in unknown:
        problem = _ELSEWHERE.get(name, f"there is: {', '.join(known)}")
        raise NotReconfigurableError(uid=uid, problem=f"{name} cannot be changed while the job runs; {problem}")


def _whole(uid: str, name: str, value: Any) -> int | None:
    if value is not None and (type(value) is not int or value < 1):
        raise NotReconfigurableError(uid=uid, problem=f"{name} is a whole number above 0, not {value!r}")
    return value


def as_numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a template or a command line has made a text of: the settings that are whole numbers, as those."""
    return {
        name: int(value) if name in WHOLE and isinstance(value, str) and value.strip().isdecimal() else value
        for name, value in given.items()
    }


@dataclass(frozen=True)
class AffectedVertex:
    """One query that would stand still. ``before``, ``after``: what is changed of it, by name; what is not in
    ``before`` was as the job declares it. ``state``: (parts now, parts then) if its state is cut anew."""

    vertex: str
    before: Mapping[str, object]
    after: Mapping[str, object]
    state: tuple[int | None, int] | None


@dataclass(frozen=True)
class ReconfigurationPreview:
    """``affected``: who would stand still; ``unaffected``: who would not notice."""

    affected: tuple[AffectedVertex, ...]
    unaffected: tuple[str, ...]


def preview(state: JobState, changes: Mapping[str, VertexSettings]) -> ReconfigurationPreview:
    """What ``changes`` would come to, from the journal alone: nothing is asked or touched. Whether the new queries fit
    is tried by the driver only. Raises NotReconfigurableError."""
    try:
        change = by_vertex(state.graph(), changes)
    except ReconfigurationRefusedError as error:
        raise NotReconfigurableError(uid=", ".join(changes) or "nothing", problem=error.data["why"]) from None
    definition = None if state.plan is None else state.plan.definition
    found = []
    for uid, one in change.items():
        known = None if definition is None else definition.vertices.get(uid)
        if one.state_partitions is not None and known is not None and not known.stateful:
            raise NotReconfigurableError(uid=uid, problem="it keeps no state that could be cut anew")
        before = state.settings.get(uid, VertexSettings())
        parts = None if known is None else known.shuffle_partitions
        moves = None if one.state_partitions is None else (parts, one.state_partitions)
        names = one.named()
        found.append(
            AffectedVertex(uid, {k: v for k, v in before.named().items() if k in names}, names, moves),
        )
    others = tuple(vertex.uid for vertex in state.graph().vertices if vertex.uid not in change)
    return ReconfigurationPreview(tuple(found), others)
