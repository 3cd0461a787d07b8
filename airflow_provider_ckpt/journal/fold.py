"""From the events of a journal to the state of the job: one small function for each type of event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.requests import LAST_WORDS
from airflow_provider_ckpt.journal.state import HISTORY, JobState
from airflow_provider_ckpt.journal.state_json import state_from_json


def apply(state: JobState, event: ev.Event) -> None:
    """Fold one event into the state. Events are applied in the order of the journal, each once."""
    _APPLY[type(event)](state, event)


def _remember(history: dict[int, Any], number: int, value: Any) -> None:
    history[number] = value
    if len(history) > HISTORY:
        del history[min(history)]


def _remember_first(history: dict[str, str], name: str, value: str) -> None:
    """The oldest entry goes first: names are in no order."""
    history[name] = value
    if len(history) > HISTORY:
        del history[next(iter(history))]


def _created(state: JobState, event: ev.JobCreated) -> None:
    state.created = event


def _claimed(state: JobState, event: ev.EpochClaimed) -> None:
    state.epoch, state.attempt, state.worker = event.epoch, event.attempt, event.worker
    state.pending = 0
    if state.status is not None:
        state.status, state.cause = "CREATED", None  # how the run before ended says nothing about this one


def _planned(state: JobState, event: ev.PlanRecorded) -> None:
    if state.plan is not None:
        before, after = _operators(state.plan), _operators(event)
        for uid in after - before:
            state.introduced[uid] = (state.epoch, state.last_completed)
        for uid in before - after:
            _give_up(state, uid)
    state.plan = event


def _operators(plan: ev.PlanRecorded) -> set[str]:
    return {uid for vertex in plan.graph["vertices"] for uid in (*vertex["operators"], *vertex["sinks"])}


def _give_up(state: JobState, uid: str) -> None:
    """Nothing that was decided about an operator outlives it: one that comes back under its uid is a new one."""
    state.given_up.add(uid)
    state.frozen.pop(uid, None)
    for uids in (*state.ended.values(), *state.dropped.values()):
        uids.pop(uid, None)
    state.ended.pop(uid, None)
    state.dropped.pop(uid, None)
    for subtasks in (state.end_of_data, state.finished):
        subtasks -= {subtask for subtask in subtasks if subtask.rpartition("/")[0] == uid}


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
    done = None if event.anew else state.checkpoints.get(event.checkpoint)
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
    if event.anew:
        state.frozen, state.anew_epoch, state.given_up = {}, state.epoch, set()
    state.restored, state.restored_epoch = event.checkpoint, state.epoch


def _end_of_data(state: JobState, event: ev.SubtaskEndOfData) -> None:
    state.end_of_data.add(event.subtask)


def _finished(state: JobState, event: ev.SubtaskFinished) -> None:
    state.end_of_data.add(event.subtask)
    state.finished.add(event.subtask)


def _answered(state: JobState, event: ev.RequestAnswered) -> None:
    state.answered.add(event.request)
    if event.outcome.startswith(LAST_WORDS):
        _remember_first(state.outcomes, event.request, event.outcome)
    if event.kind == "drain" and event.outcome == "accepted":
        state.draining = True


def _snapshot(state: JobState, event: ev.StateSnapshot) -> None:
    damage = state.damage
    state.__dict__.update(state_from_json(event.state).__dict__)
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
