"""The sequence of checkpoints: when the next checkpoint is triggered, and how a pending checkpoint ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.checkpoints.checkpoint_plan import CheckpointPlan, plan
from airflow_provider_ckpt.coordinator.checkpoints.pending_checkpoint import (
    CutCheck,
    End,
    PendingCheckpoint,
    completed_event,
)
from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import CheckpointFailureReason, FailureTracker
from airflow_provider_ckpt.coordinator.protocol.checkpoint_options import CheckpointOptions
from airflow_provider_ckpt.coordinator.protocol.commands import TriggerBarrier
from airflow_provider_ckpt.coordinator.protocol.effects import Append, Effect, NotifyCompleted
from airflow_provider_ckpt.coordinator.state.ended_sources import EndedSources
from airflow_provider_ckpt.coordinator.state.pauses import Pauses
from airflow_provider_ckpt.coordinator.state.release_state import ReleaseState
from airflow_provider_ckpt.coordinator.state.running_graph import RunningGraph
from airflow_provider_ckpt.coordinator.state.split_sources import SplitSources
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState, SubtaskStatus, SubtaskTable
from airflow_provider_ckpt.journal.events import CheckpointAborted, CheckpointTriggered
from airflow_provider_ckpt.model.checkpoint_view import CheckpointKind
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.progress import Snapshot

RETRY_PAUSE = 1.0
"""Seconds from an aborted checkpoint to the next try, if an end of data or a stop needs a checkpoint."""


@dataclass(frozen=True)
class Completed:
    """A completed checkpoint, with the subtasks whose ends of data precede its barriers."""

    checkpoint: int
    kind: CheckpointKind
    covered: frozenset[SubtaskId]


class CheckpointCycle:
    """The checkpoints of a job, of which at most one is pending. Effects are appended to ``out`` in order."""

    def __init__(
        self,
        graph: RunningGraph,
        options: CheckpointOptions,
        epoch: int,
        restored: RestoredState,
        subtasks: SubtaskTable,
        sources: EndedSources,
        splits: SplitSources,
        pauses: Pauses,
        releases: ReleaseState,
        out: list[Effect],
    ) -> None:
        self._graph, self._options, self._epoch = graph, options, epoch
        self._subtasks, self._out = subtasks, out
        self._sources, self._splits, self._pauses = sources, splits, pauses
        self._releases = releases
        self._cut = CutCheck(graph)
        self._snapshots: dict[SubtaskId, Snapshot] = dict(restored.snapshots)
        self._uncovered: set[End] = set()
        self._interval_from: float | None = None
        self._published_at: dict[SubtaskId, float] = {}
        """Subtask → time of its last published batch of a live source after its last barrier."""
        self._covered_at: dict[SubtaskId, float] = {}
        """Subtask → time of its last batch of a live source before its barrier of the pending checkpoint."""
        self._ended_at: float | None = None
        self._aborted_at: float | None = None
        self.failures = FailureTracker(options.tolerable_failed)
        self.pending: PendingCheckpoint | None = None
        self.last_triggered = restored.last_triggered
        self.last_completed = restored.last_completed

    # -- when

    def start_interval(self, now: float) -> None:
        self._interval_from = now

    def note_published(self, subtask: SubtaskId, now: float) -> None:
        """Note that a subtask has published a batch of a live source. Only its last batch has an effect."""
        self._published_at[subtask] = now

    def request_for(self, end: End) -> None:
        """Request a checkpoint after ``end`` as soon as possible, for example because a subtask needs it to close."""
        self._uncovered.add(end)

    @property
    def is_wanted(self) -> bool:
        """Return whether a reported end of data, or end of a source, is in no completed checkpoint."""
        return bool(self._uncovered)

    def due(self, savepoint: bool) -> float | None:
        """Return the earliest time of the next trigger, or None if there is no reason for a checkpoint.

        ``savepoint`` is True if a stop waits for the checkpoint.
        """
        pause = self._after(self._ended_at, self._options.min_pause)
        retry = self._after(self._aborted_at, RETRY_PAUSE)
        if savepoint:
            return retry
        all_ended = self._subtasks.all_ended
        if self._uncovered and (all_ended or not self._options.is_batch):
            return max(pause, retry)
        if not self._options.is_batch and self._interval_from is not None:
            return max(pause, self._regular_trigger(self._interval_from))
        return None

    def _regular_trigger(self, start: float) -> float:
        """Return one interval after ``start``. If a live batch came up to ``max_early`` s earlier, return its time."""
        regular = start + self._options.interval
        published = max(self._published_at.values(), default=None)
        return regular if published is None or published < regular - self._options.max_early else published

    def refusal(self) -> CheckpointFailureReason | None:
        """Return why no checkpoint can be triggered, even if it is due; None if it can be triggered."""
        if self.pending is not None:
            return CheckpointFailureReason.TOO_MANY_CHECKPOINT_REQUESTS
        if self._pauses.current:
            return CheckpointFailureReason.PLANNED_RESTART
        if self._subtasks.blocked or not self._subtasks.some_active:
            return CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        return None

    @property
    def expires(self) -> float | None:
        return None if self.pending is None else self.pending.triggered_at + self._options.timeout

    # -- trigger

    def trigger(self, kind: CheckpointKind, now: float) -> None:
        planned = self._plan(self._subtasks.in_status(SubtaskStatus.FINISHED))
        self.last_triggered += 1
        self.pending = PendingCheckpoint(
            self.last_triggered,
            kind,
            planned,
            covers=frozenset(self._uncovered),
            ended=self._sources.all_ended,
            now=now,
        )
        self._interval_from = now
        # R10: the id is durable before a subtask can write it into its log.
        self._out.append(Append(CheckpointTriggered(self.last_triggered, now, kind)))
        for subtask in planned.trigger:
            self._send(self.pending, subtask)

    def _send(self, pending: PendingCheckpoint, subtask: SubtaskId) -> None:
        pending.trigger(subtask)
        attempt = self._subtasks.attempt(subtask)
        self._out.append(TriggerBarrier(self._epoch, subtask, attempt, pending.checkpoint))

    # -- acknowledge

    def acknowledged(self, subtask: SubtaskId, snapshot: Snapshot, now: float) -> Completed | None:
        """Record the acknowledgement of a subtask. Return the checkpoint if it completes, else None.

        Raises CutViolatedError if the checkpoint is no consistent cut. The caller must then abort the checkpoint.
        """
        assert self.pending is not None
        self.pending.acknowledge(subtask, snapshot)
        if subtask in self._published_at:  # the barrier follows these batches
            self._covered_at[subtask] = self._published_at.pop(subtask)
        return self._complete(now)

    def finished(self, subtask: SubtaskId, now: float) -> Completed | None:
        """Record that a subtask closed. Return the pending checkpoint if it completes, else None.

        If the subtask appended no barrier, it counts as finished in the pending checkpoint. Its consumers then get
        no barrier from the subtask, so the JobMaster triggers them (R20).

        Raises CutViolatedError if the checkpoint is no consistent cut.
        """
        pending = self.pending
        if pending is None or not pending.waits_for(subtask):
            return None
        pending.finish(subtask)
        for root in self._plan(pending.finished).trigger:
            if pending.waits_for(root) and not pending.was_triggered(root):
                self._send(pending, root)
        return self._complete(now)

    def _complete(self, now: float) -> Completed | None:
        pending = self.pending
        assert pending is not None
        if not pending.is_complete:
            return None
        if not pending.acknowledged:
            self.abort(CheckpointFailureReason.ALL_TASKS_FINISHED, now)
            return None
        self._cut.check(pending)
        return self._commit(pending, now)

    def _commit(self, pending: PendingCheckpoint, now: float) -> Completed:
        event, snapshots = completed_event(
            pending, self._graph.now, self._snapshots, now, self._releases.under_way.values()
        )
        self._snapshots = snapshots
        self._out.extend(map(Append, self._splits.cover(pending.checkpoint, snapshots)))  # in the entry of ``event``
        self._out.append(Append(event))
        self._out.append(NotifyCompleted(pending.checkpoint))
        self.last_completed = pending.checkpoint
        self.failures.completed(pending.checkpoint)
        self._covered_at.clear()
        self.pending, self._ended_at, self._aborted_at = None, now, None
        covered = {name for name, uid in pending.covers if uid is None}
        covered.update(name for name, snapshot in snapshots.items() if snapshot.finished)
        self._uncovered = {end for end in self._uncovered if not _lies_before(end, pending, snapshots)}
        return Completed(pending.checkpoint, pending.kind, frozenset(covered))

    # -- abort

    def abort(self, reason: CheckpointFailureReason, now: float, *, for_stop: bool = False) -> PendingCheckpoint | None:
        """Abort the pending checkpoint, if there is one, and return it.

        Subtasks are not notified. The barriers stay in the logs, and readers ignore them (R10). The abort counts as a
        failure, unless the checkpoint is a savepoint or ``for_stop`` is True (a stop has timed out).
        """
        pending = self.pending
        if pending is None:
            return None
        self._out.append(Append(CheckpointAborted(pending.checkpoint, reason.name, now)))
        if pending.kind != "savepoint" and not for_stop:
            self.failures.failed(pending.checkpoint, reason)
        self._published_at = {**self._covered_at, **self._published_at}  # a later batch counts
        self._covered_at.clear()
        self.pending, self._ended_at, self._aborted_at = None, now, now
        return pending

    # -- helpers

    def _plan(self, finished: Iterable[SubtaskId]) -> CheckpointPlan:
        return plan(self._graph.now, set(finished), through_partitions=not self._options.is_batch)

    @staticmethod
    def _after(moment: float | None, pause: float) -> float:
        return float("-inf") if moment is None else moment + pause


def _lies_before(end: End, pending: PendingCheckpoint, snapshots: dict[SubtaskId, Snapshot]) -> bool:
    subtask, uid = end
    if end in pending.covers or snapshots[subtask].finished:
        return True
    return uid is not None and uid in snapshots[subtask].ended
