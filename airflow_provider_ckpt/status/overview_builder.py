"""Construction of a job's overview from its journal and, while a driver runs, from the facts of its JobMaster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.job.error_cause import cause_first
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.checkpoint_view import CheckpointView
from airflow_provider_ckpt.model.definition import SinkDefinition
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.progress import SourceTimes, combined
from airflow_provider_ckpt.status.event_time_text import held_windows
from airflow_provider_ckpt.status.job_overview import (
    CHECKPOINTS,
    CheckpointOverview,
    EventOverview,
    JobOverview,
    SinkOverview,
    SourceOverview,
    SubtaskOverview,
    Unit,
    VertexOverview,
)
from airflow_provider_ckpt.status.live_facts import Counter, InputFacts, LiveFacts, QueryFacts
from airflow_provider_ckpt.status.problems import problems

UNKNOWN = "unknown"
"""Status of an unfinished subtask whose status no driver reports."""


@dataclass(frozen=True)
class DriverFacts:
    """The part of an overview that only a running JobMaster knows.

    Args:
        facts: Measurements and failing releases.
        now: Time of the monotonic clock that the measurements use, in seconds.
        statuses: Subtask → its status according to the coordinator.
    """

    facts: LiveFacts
    now: float
    statuses: Mapping[SubtaskId, str]
    next_checkpoint_at: float | None = None
    stopping: bool = False
    interval: float = 0.0
    """Minimum seconds between two overviews."""
    options: Mapping[str, str] = field(default_factory=dict)
    events: tuple[EventOverview, ...] = ()


def job_overview(state: JobState, now: float, driver: DriverFacts | None = None) -> JobOverview:
    """Return the overview of a job. ``now`` is in epoch seconds.

    Without a driver all facts come from the journal. Sources, vertices and sinks come from the last job graph in the
    journal.
    """
    overview = _Builder(state, now, driver).build()
    return JobOverview(**{**vars(overview), "problems": tuple(problems(overview, state, now))})


class _Builder:
    def __init__(self, state: JobState, now: float, driver: DriverFacts | None) -> None:
        self._state, self._now, self._driver = state, now, driver
        self._graph = state.graph()
        self._ended = set(state.finished_operators())
        self._splits = {progress.source: progress for progress in state.split_progress()}
        self._times = self._times_by_source()
        self._watermarks, self._late = state.watermarks(), state.late_rows()
        self._waits = {held.vertex: held.shown(now) for held in held_windows(state, now)}

    def build(self) -> JobOverview:
        state, driver = self._state, self._driver
        vertices = self._graph.vertices
        return JobOverview(
            job_id=state.job_id,
            at=self._now,
            status=state.status,
            epoch=state.epoch,
            mode=state.created.mode if state.created else None,
            attempt=state.attempt or None,
            cause=cause_first(state.cause) if state.cause else None,
            created_at=state.created.at if state.created else None,
            driver_since=driver.facts.since if driver else None,
            interval=driver.interval if driver else 0.0,
            measured_at=self._now if driver else None,
            host=state.worker.host,
            pid=state.worker.pid,
            application_id=state.worker.application_id,
            draining=state.draining,
            stopping=driver.stopping if driver else False,
            options=driver.options if driver else {},
            settings=dict(state.settings),
            sources=tuple(self._source(vertex, uid) for vertex in vertices for uid in vertex.sources),
            vertices=tuple(map(self._vertex, vertices)),
            sinks=tuple(self._sink(vertex, uid) for vertex in vertices for uid in vertex.sinks),
            last_completed=state.last_completed,
            last_released=state.last_released,
            completed_count=state.completed_count,
            aborted_count=state.aborted_count,
            next_checkpoint_at=driver.next_checkpoint_at if driver else None,
            checkpoints=tuple(map(self._checkpoint, reversed(state.checkpoint_views()[-CHECKPOINTS:]))),
            events=driver.events if driver else (),
        )

    # ---- sources

    def _source(self, vertex: JobVertex, uid: str) -> SourceOverview:
        bounded = uid in vertex.bounded_sources or (vertex.splits and uid == vertex.uid)
        facts = self._inputs(vertex, uid)
        unit, done, total, left = self._position(vertex, uid, facts)
        is_finished = uid in self._ended
        rate = self._rate(of_input.done for of_input in facts)
        times = self._times.get(uid, SourceTimes())
        return SourceOverview(
            uid=uid,
            vertex=vertex.uid,
            bounded=bounded,
            is_finished=is_finished,
            unit=unit,
            done=done,
            total=total,
            left=left,
            rows=sum(of_input.rows.total for of_input in facts) if facts else None,
            rows_per_second=None if is_finished else self._rate(of_input.rows for of_input in facts),
            seconds_left=left / rate if left and rate else None,
            behind=next((of_input.behind for of_input in facts if of_input.behind is not None), None),
            newest=times.newest,
            last_row_at=times.last_row_at,
            malformed_rows=self._state.malformed_rows().get(uid, 0),
        )

    def _position(
        self, vertex: JobVertex, uid: str, facts: list[InputFacts]
    ) -> tuple[Unit | None, int | None, int | None, int | None]:
        """Return (unit, number read, total number, number left) of a source. None means not known."""
        splits, frozen = self._splits.get(uid), self._state.frozen.get(uid)
        if splits is not None:
            return "splits", splits.done, splits.total, splits.open
        if uid not in vertex.bounded_sources:
            behind = any(of_input.behind is not None for of_input in facts)
            return "records" if behind else None, None, None, None
        total = frozen.count if frozen is not None and frozen.path is not None else None
        lefts = [of_input.left for of_input in facts if of_input.left is not None]
        left = 0 if uid in self._ended else next(iter(lefts), None)
        if self._is_kafka(uid):
            return "records", None, None, left
        return "files", None if total is None or left is None else total - left, total, left

    def _is_kafka(self, uid: str) -> bool:
        definition = self._state.definition
        source = None if definition is None else definition.sources.get(uid)
        return source is not None and source.format == "kafka"

    def _inputs(self, vertex: JobVertex, uid: str) -> list[InputFacts]:
        queries = (self._query(subtask) for subtask in vertex.subtasks)
        return [query.inputs[uid] for query in queries if query is not None and uid in query.inputs]

    def _times_by_source(self) -> dict[str, SourceTimes]:
        merged: dict[str, SourceTimes] = {}
        for times in self._state.times().values():
            merged = combined(merged, times)
        return merged

    # ---- vertices

    def _vertex(self, vertex: JobVertex) -> VertexOverview:
        queries = [query for subtask in vertex.subtasks if (query := self._query(subtask)) is not None]
        progress = next((query.progress for query in queries if query.progress is not None), None)
        return VertexOverview(
            uid=vertex.uid,
            operators=vertex.operators,
            sinks=vertex.sinks,
            inputs=tuple(edge.producer for edge in self._graph.inputs(vertex.uid)),
            subtasks=tuple(map(self._subtask, vertex.subtasks)),
            batch=progress.batch_id if progress else None,
            batch_seconds=progress.duration if progress else None,
            rows=sum(query.rows() for query in queries) if queries else None,
            rows_per_second=self._rate(of_input.rows for query in queries for of_input in query.inputs.values()),
            unread_batches=progress.behind if progress else None,
            state_rows=progress.state_rows if progress else None,
            state_bytes=progress.state_bytes if progress else None,
            watermark=self._watermarks.get(vertex.uid),
            late_rows=self._late.get(vertex.uid, 0),
            waits=self._waits.get(vertex.uid),
        )

    def _subtask(self, subtask: SubtaskId) -> SubtaskOverview:
        status = "finished" if subtask in self._state.finished else UNKNOWN
        if self._driver is not None:
            status = self._driver.statuses.get(subtask, status)
        return SubtaskOverview(subtask, status, restarts=self._state.restarts.get(subtask, 0))

    def _query(self, subtask: SubtaskId) -> QueryFacts | None:
        return None if self._driver is None else self._driver.facts.queries.get(subtask)

    # ---- sinks and checkpoints

    def _sink(self, vertex: JobVertex, uid: str) -> SinkOverview:
        state, driver = self._state, self._driver
        definition = None if state.definition is None else state.definition.sinks.get(uid)
        released = max(state.last_released, state.sinks_released.get(uid, 0))
        facts = None if driver is None else driver.facts.sinks.get(uid)
        last = next(
            (
                release
                for number, release in sorted(state.releases.items(), reverse=True)
                if number <= released and any(release.sinks.get(uid, {}).values())
            ),
            None,
        )
        return SinkOverview(
            uid=uid,
            vertex=vertex.uid,
            kind=_kind(definition),
            released=released,
            released_at=None if last is None else last.at,
            counts=dict(state.released_counts.get(uid, {})),
            last_counts={} if last is None else dict(last.sinks[uid]),
            waiting=sum(number > released for number in state.checkpoints),
            held_by=None if facts is None else facts.held_by,
            failing_since=None if facts is None else facts.failing_since,
            failure=None if facts is None else facts.failure,
        )

    def _checkpoint(self, view: CheckpointView) -> CheckpointOverview:
        rows = [counts["rows"] for counts in view.sinks.values() if "rows" in counts]
        return CheckpointOverview(
            view.checkpoint,
            view.kind,
            view.status,
            view.triggered_at,
            view.completed_at,
            view.released_at,
            view.reason,
            sum(rows) if rows else None,
        )

    def _rate(self, counters: Iterable[Counter]) -> float | None:
        """Return the sum of the counters' rates; None if no rate is known, or if the job does not run."""
        if self._driver is None or not self._state.is_held:
            return None
        rates = [rate for counter in counters if (rate := counter.per_second(self._driver.now)) is not None]
        return sum(rates) if rates else None


def _kind(definition: SinkDefinition | None) -> str:
    """Return the kind of a sink from the name of its class, such as ``postgres`` for PostgresSink; "" if unknown."""
    name = "" if definition is None else str(definition.target.get("type", "")).rpartition(".")[2]
    return name.removesuffix("Sink").lower()
