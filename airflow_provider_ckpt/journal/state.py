"""The state of a job: the fold of its journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt.journal import events as ev

HISTORY = 100
"""How many completed, and how many aborted, checkpoints the state remembers."""


@dataclass
class JobState:
    """Changed by :meth:`apply` only. A checkpoint number 0 means "none yet"; times are epoch seconds."""

    job_id: str
    created: ev.JobCreated | None = None
    epoch: int = 0
    attempt: str | None = None
    worker: Mapping[str, Any] = field(default_factory=dict)
    status: str | None = None
    """None, CREATED, RUNNING, RESTARTING, FINISHED, STOPPED or FAILED."""
    cause: str | None = None
    plan: ev.PlanRecorded | None = None
    frozen: dict[str, ev.SourceFrozen] = field(default_factory=dict)
    last_triggered: int = 0
    pending: int = 0
    """The checkpoint in progress. One of an earlier epoch is not: nobody will complete it."""
    triggered: dict[int, ev.CheckpointTriggered] = field(default_factory=dict)
    """Those that did not complete, the last ``HISTORY``."""
    checkpoints: dict[int, ev.CheckpointCompleted] = field(default_factory=dict)
    last_completed: int = 0
    completed_count: int = 0
    aborted: dict[int, str] = field(default_factory=dict)
    aborted_count: int = 0
    releases: dict[int, ev.CheckpointReleased] = field(default_factory=dict)
    last_released: int = 0
    ended: dict[str, dict[str, int]] = field(default_factory=dict)
    """Vertex -> source or edge uid -> the batch that covers it (R2)."""
    dropped: dict[str, dict[str, int]] = field(default_factory=dict)
    end_of_data: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    """Subtasks "<vertex>/<index>"."""
    late_files: list[ev.LateFilesFound] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    draining: bool = False
    """A drain was accepted, in this or an earlier epoch: the next driver goes on with it."""
    damage: list[str] = field(default_factory=list)
    """What is wrong with the journal this state was read from; the state is that of the intact part."""

    def apply(self, event: ev.Event) -> None:
        """Fold one event. Events are applied in the order of the journal, each once."""
        _APPLY[type(event)](self, event)

    def finished_operators(self) -> list[str]:
        """Sorted uids: the sources that ended, and every operator of a vertex with no unfinished subtask."""
        found = {uid for uids in (*self.ended.values(), *self.dropped.values()) for uid in uids}
        operators: set[str] = set()
        for vertex in self._graph().get("vertices", ()):
            members = {*vertex["operators"], *vertex["sinks"]}
            operators |= members
            subtasks = {f"{vertex['uid']}/{index}" for index in range(vertex.get("parallelism", 1))}
            if subtasks <= self.finished:
                found |= members
        # Ended input edges are in the journal too; they are no operators.
        return sorted(found & operators if operators else found)

    def _graph(self) -> Mapping[str, Any]:
        if self.plan is not None:
            return self.plan.graph
        return self.created.graph if self.created is not None else {}

    def checkpoint_view(self) -> list[dict[str, Any]]:
        """The checkpoints remembered, oldest first, for display: ``checkpoint``, ``kind``, ``status``
        (in progress, completed, released, aborted), ``triggered_at``, ``completed_at``, ``released_at``,
        ``duration_ms``, ``reason``, ``finished`` (operators that were finished in it), ``sinks``."""
        numbers = sorted({*self.checkpoints, *self.triggered, *self.aborted})
        return [self._view_completed(n) if n in self.checkpoints else self._view_other(n) for n in numbers]

    def _view_completed(self, number: int) -> dict[str, Any]:
        done = self.checkpoints[number]
        # Releasing n releases everything staged up to n.
        release = self.releases.get(number)
        return {
            "checkpoint": number,
            "kind": done.kind,
            "status": "released" if number <= self.last_released else "completed",
            "triggered_at": done.triggered_at,
            "completed_at": done.at,
            "released_at": release.at if release else None,
            "duration_ms": round((done.at - done.triggered_at) * 1000),
            "reason": None,
            "finished": sorted(uid for uid, state in done.operators.items() if state == "finished"),
            "sinks": dict(release.sinks) if release else {},
        }

    def _view_other(self, number: int) -> dict[str, Any]:
        triggered = self.triggered.get(number)
        running = number == self.pending
        return {
            "checkpoint": number,
            "kind": triggered.kind if triggered else "checkpoint",
            "status": "in progress" if running else "aborted",
            "triggered_at": triggered.at if triggered else None,
            "completed_at": None,
            "released_at": None,
            "duration_ms": None,
            "reason": None if running else self.aborted.get(number, "the driver was lost"),
            "finished": [],
            "sinks": {},
        }

    def to_json(self) -> dict[str, Any]:
        """Readable, with format and version; what is wrong with the journal is not part of it."""
        from airflow_provider_ckpt.journal.state_json import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> JobState:
        """Raises MalformedDocumentError, NewerFormatError."""
        from airflow_provider_ckpt.journal.state_json import from_json

        return from_json(data)


def _remember(history: dict[int, Any], number: int, value: Any) -> None:
    history[number] = value
    if len(history) > HISTORY:
        del history[min(history)]


def _created(state: JobState, event: ev.JobCreated) -> None:
    state.created = event


def _claimed(state: JobState, event: ev.EpochClaimed) -> None:
    state.epoch, state.attempt, state.worker = event.epoch, event.attempt, event.worker
    state.pending = 0
    if state.status is not None:
        state.status, state.cause = "CREATED", None  # how the run before ended says nothing about this one


def _planned(state: JobState, event: ev.PlanRecorded) -> None:
    state.plan = event


def _frozen(state: JobState, event: ev.SourceFrozen) -> None:
    state.frozen[event.uid] = event


def _status(state: JobState, event: ev.StatusChanged) -> None:
    state.status, state.cause = event.status, event.cause
    if event.status == "STOPPED":
        state.draining = False  # a stop wins over a drain; the next run goes on reading


def _triggered(state: JobState, event: ev.CheckpointTriggered) -> None:
    state.last_triggered = max(state.last_triggered, event.checkpoint)
    state.pending = event.checkpoint
    _remember(state.triggered, event.checkpoint, event)


def _completed(state: JobState, event: ev.CheckpointCompleted) -> None:
    _remember(state.checkpoints, event.checkpoint, event)
    state.triggered.pop(event.checkpoint, None)
    state.last_triggered = max(state.last_triggered, event.checkpoint)
    state.last_completed = max(state.last_completed, event.checkpoint)
    state.completed_count += 1
    _no_longer_pending(state, event.checkpoint)


def _aborted(state: JobState, event: ev.CheckpointAborted) -> None:
    if event.checkpoint not in state.aborted:
        state.aborted_count += 1
    _remember(state.aborted, event.checkpoint, event.reason)
    _no_longer_pending(state, event.checkpoint)


def _no_longer_pending(state: JobState, checkpoint: int) -> None:
    if state.pending == checkpoint:
        state.pending = 0


def _released(state: JobState, event: ev.CheckpointReleased) -> None:
    _remember(state.releases, event.checkpoint, event)
    state.last_released = max(state.last_released, event.checkpoint)


def _ended(state: JobState, event: ev.SourceEnded) -> None:
    state.ended.setdefault(event.vertex, {})[event.uid] = event.batch_id


def _dropped(state: JobState, event: ev.SourceDropped) -> None:
    state.dropped.setdefault(event.vertex, {})[event.uid] = event.batch_id


def _late(state: JobState, event: ev.LateFilesFound) -> None:
    state.late_files.append(event)


def _restored(state: JobState, event: ev.Restored) -> None:
    # A checkpoint that is no longer remembered ended nothing: the subtask logs say what did (R11).
    done = state.checkpoints.get(event.checkpoint)
    snapshots = done.subtasks if done else {}
    state.ended = {}
    for subtask, snapshot in snapshots.items():
        batch = snapshot.get("batch_id")
        for uid in snapshot.get("ended", ()):
            state.ended.setdefault(subtask.rpartition("/")[0], {})[uid] = -1 if batch is None else int(batch)
    state.dropped = {vertex: dict(uids) for vertex, uids in event.dropped.items()}
    state.end_of_data = {subtask for subtask, snapshot in snapshots.items() if snapshot.get("finished")}
    state.finished = {subtask for subtask, snapshot in snapshots.items() if snapshot.get("finished_on_restore")}
    state.draining = False


def _end_of_data(state: JobState, event: ev.SubtaskEndOfData) -> None:
    state.end_of_data.add(event.subtask)


def _finished(state: JobState, event: ev.SubtaskFinished) -> None:
    state.end_of_data.add(event.subtask)
    state.finished.add(event.subtask)


def _answered(state: JobState, event: ev.RequestAnswered) -> None:
    state.answered.add(event.request)
    if event.kind == "drain" and event.outcome == "accepted":
        state.draining = True


def _snapshot(state: JobState, event: ev.StateSnapshot) -> None:
    damage = state.damage
    state.__dict__.update(JobState.from_json(event.state).__dict__)
    state.damage = damage


_APPLY: dict[type, Callable[[JobState, Any], None]] = {
    ev.JobCreated: _created,
    ev.EpochClaimed: _claimed,
    ev.PlanRecorded: _planned,
    ev.SourceFrozen: _frozen,
    ev.StatusChanged: _status,
    ev.CheckpointTriggered: _triggered,
    ev.CheckpointCompleted: _completed,
    ev.CheckpointAborted: _aborted,
    ev.CheckpointReleased: _released,
    ev.SourceEnded: _ended,
    ev.SourceDropped: _dropped,
    ev.LateFilesFound: _late,
    ev.Restored: _restored,
    ev.SubtaskEndOfData: _end_of_data,
    ev.SubtaskFinished: _finished,
    ev.RequestAnswered: _answered,
    ev.StateSnapshot: _snapshot,
}
