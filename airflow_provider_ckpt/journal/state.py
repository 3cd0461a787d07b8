"""The state of a job, as its journal tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt.journal import events as ev

HISTORY = 100
"""How many completed, and how many aborted, checkpoints the state remembers."""


@dataclass
class JobState:
    """Changed by ``journal.fold.apply`` only. A checkpoint number 0 means "none yet"; times are epoch seconds."""

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
    outcomes: dict[str, str] = field(default_factory=dict)
    """Request -> how it went (``completed: …``, ``failed: …``, ``refused: …``), the last ``HISTORY``; one that was
    only taken so far is in ``answered`` alone."""
    restored: int = 0
    """The checkpoint that the last restore went back to; ``restored_epoch``: of the driver that began it, 0 if there
    was no restore."""
    restored_epoch: int = 0
    introduced: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Operator uid -> the epoch that brought it into a job which had been running without, and the last checkpoint by
    then: what attempts of that uid did before, when it was in the job once already, does not count."""
    given_up: set[str] = field(default_factory=set)
    """Uids of operators that the job had and has no longer, or had not for a while."""
    anew_epoch: int = 0
    """Of the driver that began the job anew, last; 0 if none did."""
    draining: bool = False
    """A drain was accepted, in this or an earlier epoch: the next driver goes on with it."""
    damage: list[str] = field(default_factory=list)
    """What is wrong with the journal this state was read from; the state is that of the intact part."""

    def since(self, uid: str) -> int:
        """The epoch from which on the attempts of a vertex or source count."""
        return max(self.anew_epoch, self.introduced.get(uid, (0, 0))[0])

    def covering(self) -> dict[str, Mapping[str, Any]]:
        """The snapshots of the last completed checkpoint that count: not those of before the job was begun anew, or
        of an operator that was given up and came back since."""
        last = self.checkpoints.get(self.last_completed)
        anew = self.anew_epoch and (self.anew_epoch, self.last_completed) == (self.restored_epoch, self.restored)
        if last is None or anew:
            return {}
        return {
            subtask: snapshot
            for subtask, snapshot in last.subtasks.items()
            if self.introduced.get(subtask.rpartition("/")[0], (0, 0))[1] < self.last_completed
        }

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
