"""The state of a job, as its journal records it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.errors import JobDeletedError
from airflow_provider_ckpt.journal.kinds.reconfiguration import Reconfigurations
from airflow_provider_ckpt.journal.sink_progress import SinkProgress
from airflow_provider_ckpt.model.checkpoint_view import CheckpointView
from airflow_provider_ckpt.model.counts import added
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.json_form import UNRECORDED
from airflow_provider_ckpt.model.progress import Snapshot, SourceTimes, combined
from airflow_provider_ckpt.model.source_times import MAX_WATERMARK
from airflow_provider_ckpt.model.split import Ranges, size, union
from airflow_provider_ckpt.model.vertex_settings import Settings
from airflow_provider_ckpt.printable import instant_text


@dataclass(frozen=True)
class SplitProgress:
    """How many splits a source has (``total``), how many are ``done``, and how many are ``assigned`` and not done."""

    source: str
    total: int
    done: int
    assigned: int

    @property
    def left(self) -> int:
        """Number of splits that are neither assigned nor done."""
        return self.total - self.done - self.assigned

    @property
    def open(self) -> int:
        """Number of splits that are not done."""
        return self.total - self.done


@dataclass
class JobState(Reconfigurations):
    """The state of a job. Its parts are in ``journal.kinds``, each with the events that change it.

    A checkpoint number 0 means that there is no such checkpoint. Times are epoch seconds.
    """

    damage: list[str] = field(default_factory=list, metadata=UNRECORDED)
    """Problems of the journal. If there is a problem, the state has only the events before it."""
    position: int = field(default=-1, compare=False, metadata=UNRECORDED)
    """Number of the last entry that was read; -1 if none was."""

    @property
    def definition(self) -> JobDefinition | None:
        """The definition of the last run, with which a later run is compared; None if no run has recorded a plan."""
        return None if self.plan is None else self.plan.definition

    @property
    def is_batch(self) -> bool:
        """True if the last run was in batch mode; False if no run has recorded a plan."""
        return self.plan is not None and self.plan.definition.mode == "batch"

    def refuse_deleted(self) -> None:
        """Refuse a job whose deletion has begun. Each claim that resumes the job, or releases for it, calls this.

        Raises JobDeletedError.
        """
        if self.deletion is not None:
            at = instant_text(self.deletion.at)
            was = self.deletion.was or "not RUNNING yet"
            raise JobDeletedError(job_id=self.job_id, status=self.status, at=at, was=was)

    @property
    def has_finished(self) -> bool:
        """True if the job is FINISHED, or was FINISHED when it was deleted."""
        return JobStatus.FINISHED in (self.status, self.deletion.was if self.deletion is not None else None)

    def valid_from(self, uid: str) -> int:
        """Return the first epoch whose results count for the vertex or source ``uid``; 0 if no epoch is excluded."""
        return max(self.from_scratch_epoch, self.introduced.get(uid, (0, 0))[0])

    def valid_snapshots(self) -> dict[SubtaskId, Snapshot]:
        """Return subtask → its snapshot in the last completed checkpoint, if the snapshot is valid.

        Snapshots from before a restart from scratch, or of an operator that was dropped and has come back, do not
        count.
        """
        last = self.checkpoints.get(self.last_completed)
        restarted = self.from_scratch_epoch and (self.from_scratch_epoch, self.last_completed) == (
            self.restored_epoch,
            self.restored,
        )
        if last is None or restarted:
            return {}
        return {
            subtask: snapshot
            for subtask, snapshot in last.subtasks.items()
            if self.introduced.get(subtask.vertex, (0, 0))[1] < self.last_completed
        }

    def finished_operators(self) -> list[str]:
        """Return the sorted uids of ended sources, and of operators in vertices whose subtasks have all finished."""
        finished = {uid for uids in (*self.ended.values(), *self.dropped.values()) for uid in uids}
        graph = self.graph()
        for vertex in graph.vertices:
            if self.finished.issuperset(vertex.subtasks):
                finished |= {*vertex.operators, *vertex.sinks}
        operators = set(graph.operators)
        # The journal also records ended input edges, which are no operators.
        return sorted(finished & operators if operators else finished)

    def split_progress(self) -> list[SplitProgress]:
        """Return the journaled progress of every source with splits. At the end of a source all its splits are done."""
        progress = []
        for vertex in [vertex for vertex in self.graph().vertices if vertex.splits]:
            uid = vertex.uid
            done, frozen = size(self.splits_done.get(uid, ())), self.frozen.get(uid)
            total = done if frozen is None else frozen.count
            if self.end_of_data.issuperset(vertex.subtasks):
                progress.append(SplitProgress(uid, total, total, 0))
                continue
            assigned: Ranges = ()
            for splits in self.splits_assigned.get(uid, {}).values():
                assigned = union(assigned, splits)
            # assigned splits that are done count as done
            assigned_open = size(union(assigned, self.splits_done.get(uid, ()))) - done
            progress.append(SplitProgress(uid, total, done, assigned_open))
        return progress

    @property
    def unreleased(self) -> tuple[int, ...]:
        """Completed checkpoints in the history that at least one sink has not released, ascending."""
        return tuple(number for number in sorted(self.checkpoints) if number > self.last_released)

    def released_by_sink(self) -> dict[str, SinkProgress]:
        sinks = {uid for vertex in self.graph().vertices for uid in vertex.sinks}
        last = {uid: max(self.last_released, self.sinks_released.get(uid, 0)) for uid in sinks}
        return {uid: SinkProgress(self.checkpoints.get(number), self.valid_from(uid)) for uid, number in last.items()}

    @property
    def has_unreleased(self) -> bool:
        return self.last_completed > self.last_released

    @property
    def has_event_time(self) -> bool:
        """True if the watermarks of the job's queries show how far its results are complete.

        By the recorded plan, at least one query must have a watermark. No query may output results later than its
        watermark.
        """
        return bool(self._with_event_time())

    def watermark(self, checkpoint: int) -> int | None:
        """Return the event time, in epoch milliseconds, up to which the output of a remembered checkpoint is complete.

        Every window that ends at or before this time is closed. The value is the lowest watermark of the unfinished
        queries with event time, and MAX_WATERMARK if all of them are at their end. The value is None if an unfinished
        query has no watermark yet, if the job has no event time, or if the checkpoint is not remembered.

        A checkpoint is one cut through all queries, so every query has read all that its producers published before the
        cut.
        """
        done = self.checkpoints.get(checkpoint)
        if done is None or not self.has_event_time:
            return None
        timed_vertices = self._with_event_time()
        watermarks = [
            snapshot.watermark
            for subtask_id, snapshot in done.subtasks.items()
            if subtask_id.vertex in timed_vertices and not snapshot.finished
        ]
        known_watermarks = [watermark for watermark in watermarks if watermark is not None]
        return min(known_watermarks, default=MAX_WATERMARK) if len(known_watermarks) == len(watermarks) else None

    def late_rows(self, checkpoint: int | None = None) -> dict[str, int]:
        """Return vertex → number of rows that its query has dropped as late, up to a remembered checkpoint.

        The default is the last completed checkpoint. Vertices without such rows are missing.
        """
        done = self.checkpoints.get(self.last_completed if checkpoint is None else checkpoint)
        dropped: dict[str, int] = {}
        for subtask, snapshot in {} if done is None else sorted(done.subtasks.items()):
            dropped[subtask.vertex] = dropped.get(subtask.vertex, 0) + snapshot.late_rows
        return {vertex: rows for vertex, rows in dropped.items() if rows}

    def with_timers(self) -> list[str]:
        """Return unfinished vertices whose state may wait for processing-time timers. A drain discards such state."""
        recorded = self.definition
        vertices = {} if recorded is None else recorded.vertices
        ended = {subtask.vertex for subtask in self.end_of_data}
        return sorted(
            uid
            for uid, vertex in vertices.items()
            if uid not in ended and any(state.has_timers for state in vertex.kept)
        )

    def changed_file_count(self) -> int:
        """Return how many files changed after they were read; a file that changed twice counts twice."""
        return sum(counts["files"] for counts in self.changed_counts.values())

    def known_changed(self) -> frozenset[str]:
        """Return the paths of changed files in the reports that the state remembers."""
        return frozenset(file.path for event in self.changed_files for file in event.files)

    def times(self, checkpoint: int | None = None) -> dict[str, dict[str, SourceTimes]]:
        """Return vertex → source → event times of the rows read, up to a remembered checkpoint.

        The default is the last completed checkpoint. Only queries with state report event times. For an input
        from another query, the source is the vertex of that query.
        """
        done = self.checkpoints.get(self.last_completed if checkpoint is None else checkpoint)
        producers = {edge.uid: edge.producer for edge in self.graph().edges}
        times_by_vertex: dict[str, dict[str, SourceTimes]] = {}
        for subtask, snapshot in {} if done is None else sorted(done.subtasks.items()):
            if snapshot.times:
                times_by_source = {producers.get(uid, uid): times for uid, times in snapshot.times.items()}
                times_by_vertex[subtask.vertex] = combined(times_by_vertex.get(subtask.vertex, {}), times_by_source)
        return times_by_vertex

    def unfit_rows(self, checkpoint: int | None = None) -> int:
        """Return how many rows had an event time that their query cannot use, up to a remembered checkpoint."""
        return sum(time.unfit for times in self.times(checkpoint).values() for time in times.values())

    def watermarks(self) -> dict[str, int]:
        """Return vertex → watermark of its query in epoch milliseconds, at the last completed checkpoint.

        Finished queries, and queries without a watermark, are missing.
        """
        done = self.checkpoints.get(self.last_completed)
        marks = (
            [
                (subtask.vertex, snapshot.watermark)
                for subtask, snapshot in done.subtasks.items()
                if not snapshot.finished
            ]
            if done
            else []
        )
        known_marks = [(vertex, watermark) for vertex, watermark in marks if watermark is not None]
        return {
            vertex: min(mark for uid, mark in known_marks if uid == vertex)
            for vertex in sorted({uid for uid, _ in known_marks})
        }

    def malformed_rows(self, checkpoint: int | None = None) -> dict[str, int]:
        """Return source → number of rows that do not fit its schema, up to ``checkpoint``.

        ``checkpoint`` must be one of the last 100 in the journal. The default is the last completed one. Sources
        without such rows are left out.
        """
        done = self.checkpoints.get(self.last_completed if checkpoint is None else checkpoint)
        return added(*(snapshot.malformed for snapshot in ({} if done is None else done.subtasks).values()))

    def _with_event_time(self) -> set[str]:
        recorded = self.definition
        if recorded is None or any(vertex.lags for vertex in recorded.vertices.values()):
            return set()
        return {uid for uid, vertex in recorded.vertices.items() if vertex.event_time}

    @property
    def is_held(self) -> bool:
        """True if a driver has claimed the job and journaled no end. The driver answers requests when the job is
        RUNNING."""
        return self.epoch > 0 if self.status is None else self.status.is_alive

    def graph(self) -> JobGraph:
        """Return the graph of the last recorded plan, else the submitted graph; an empty graph if there is neither."""
        recorded = self.plan or self.created
        return JobGraph((), ()) if recorded is None else recorded.graph

    @property
    def hosts(self) -> Mapping[SubtaskId, SubtaskId]:
        """Subtask that a rescale added → subtask in whose process it runs (:class:`PlanRecorded`)."""
        return {} if self.plan is None else self.plan.hosts

    def with_colocated(self, subtasks: Iterable[SubtaskId]) -> tuple[SubtaskId, ...]:
        """Return ``subtasks``, and the subtasks that a rescale placed in their processes and that may already begin."""
        given, waiting = tuple(subtasks), () if self.plan is None else self.plan.waiting
        guests = [guest for guest, host in sorted(self.hosts.items()) if host in given and guest not in given]
        return (*given, *(guest for guest in guests if guest not in waiting))

    def subtasks_of_process(self, name: str) -> tuple[SubtaskId, ...]:
        """Return the subtasks that a process runs if it is started for ``name`` (:meth:`JobGraph.subtasks_named`).

        Subtasks that a rescale has placed with them are included when they may begin. Empty if no plan is recorded.
        """
        if self.plan is None:
            return ()
        return self.with_colocated(
            subtask for subtask in self.graph().subtasks_named(name) if subtask not in self.plan.waiting
        )

    def assignable(self) -> tuple[SubtaskId, ...]:
        """Return the subtasks that need their own process: all that a rescale has not placed with another subtask."""
        return tuple(subtask for subtask in self.graph().subtasks if subtask not in self.hosts)

    def unfinished_assignable(self) -> tuple[SubtaskId, ...]:
        """Return the subtasks of :meth:`assignable` that are unfinished or host an unfinished subtask."""
        return tuple(
            subtask for subtask in self.assignable() if not self.finished.issuperset(self.with_colocated((subtask,)))
        )

    @property
    def settings(self) -> Settings:
        """Vertex → settings that users changed while the job ran; empty if no plan is recorded."""
        return {} if self.plan is None else self.plan.settings

    def checkpoint_views(self) -> list[CheckpointView]:
        """Return the outcomes of the remembered checkpoints (the last 100), oldest first."""
        numbers = sorted({*self.checkpoints, *self.triggered, *self.aborted})
        return [self._completed(n) if n in self.checkpoints else self._not_completed(n) for n in numbers]

    def _completed(self, number: int) -> CheckpointView:
        done = self.checkpoints[number]
        # A release of n includes everything staged up to n.
        release = self.releases.get(number)
        return CheckpointView(
            number,
            done.kind,
            "released" if number <= self.last_released else "completed",
            triggered_at=done.triggered_at,
            completed_at=done.at,
            released_at=release.at if release and number <= self.last_released else None,
            finished=tuple(sorted(uid for uid, state in done.operators.items() if state == "finished")),
            sinks={uid: dict(counts) for uid, counts in release.sinks.items()} if release else {},
            late_rows=self.late_rows(number),
            malformed_rows=self.malformed_rows(number),
        )

    def _not_completed(self, number: int) -> CheckpointView:
        triggered = self.triggered.get(number)
        running = number == self.pending
        return CheckpointView(
            number,
            triggered.kind if triggered else "checkpoint",
            "in progress" if running else "aborted",
            triggered_at=triggered.at if triggered else None,
            reason=None if running else self.aborted.get(number, "the driver was lost"),
        )
