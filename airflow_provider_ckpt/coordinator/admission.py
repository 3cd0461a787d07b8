"""The check that drops outdated messages, which are of another epoch or attempt, or about finished work (R22)."""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.coordinator_state import CoordinatorState
from airflow_provider_ckpt.coordinator.protocol.messages import (
    Message,
    ReleaseDone,
    ReleaseFailed,
    ReleaseHeld,
    RunAbandoned,
    UpgradeTried,
)
from airflow_provider_ckpt.coordinator.protocol.reports import (
    BarrierAcknowledged,
    BarrierDeclined,
    ReconfigurationPrepared,
    ReconfigurationUnfit,
    SubtaskFailed,
    SubtaskOpened,
    SubtaskPaused,
    SubtaskRunning,
)
from airflow_provider_ckpt.coordinator.state.subtask_table import SubtaskStatus
from airflow_provider_ckpt.model.job_request import JobRequest


class Admission:
    """The check that every message passes before the coordinator handles it.

    :meth:`refuse` returns why a message is dropped, or None if it is accepted. The reasons:

    - ``epoch``: the message is of another epoch.
    - ``attempt``: the message is not of the current attempt of its subtask.
    - ``subtask``, ``sink``: the job has no such subtask or sink.
    - ``checkpoint``: the checkpoint is not pending, or the subtask has acknowledged it already.
    - ``stale``: the message is a repetition, or does not count after a later event.
    """

    def __init__(self, epoch: int, state: CoordinatorState) -> None:
        self._epoch, self._subtasks, self._pauses = epoch, state.subtasks, state.pauses
        self._requests, self._cycle, self._reconfiguration = state.requests, state.cycle, state.reconfiguration
        self._releases = state.releases

    def refuse(self, message: Message) -> str | None:
        """Return why the message is dropped; None if it is accepted.

        A named request is accepted only at its first reading, because the JobMaster reads it repeatedly.
        """
        if isinstance(message, RunAbandoned):
            return None
        if isinstance(message, JobRequest):
            return None if self._requests.note_seen(message.name) else "stale"
        if isinstance(message, UpgradeTried):
            return None if self._requests.trying == message.request else "stale"
        if message.epoch != self._epoch:
            return "epoch"
        if isinstance(message, (ReleaseDone, ReleaseFailed, ReleaseHeld)):
            return None if message.sink in self._releases else "sink"
        if message.subtask not in self._subtasks:
            return "subtask"
        if self._subtasks.status(message.subtask) is SubtaskStatus.FINISHED:
            return "stale"
        if isinstance(message, (SubtaskOpened, SubtaskFailed)):
            if self._subtasks.may_begin(message.subtask, message.attempt):
                return None  # a next attempt may fail as well, before or after it opened its log
            if isinstance(message, SubtaskOpened):
                return "attempt"
        if self._subtasks.status(message.subtask) is SubtaskStatus.RESTARTING:
            return "stale"  # the next attempt reports what the failed attempt has published
        if not self._subtasks.admits(message.subtask, message.attempt):
            return "attempt"
        if isinstance(message, SubtaskRunning):
            return self._refuse_running(message)
        if isinstance(message, (BarrierAcknowledged, BarrierDeclined)):
            return self._refuse_answer(message)
        if isinstance(message, (ReconfigurationPrepared, ReconfigurationUnfit)):
            return None if self._reconfiguration.is_current(message.subtask, message.trial) else "stale"
        if isinstance(message, SubtaskPaused):
            return None if self._pauses.awaits(message.subtask, message.reason) else "stale"
        return None

    def _refuse_answer(self, message: BarrierAcknowledged | BarrierDeclined) -> str | None:
        pending = self._cycle.pending
        if pending is None or pending.checkpoint != message.checkpoint:
            return "checkpoint"
        return None if pending.waits_for(message.subtask) else "checkpoint"

    def _refuse_running(self, message: SubtaskRunning) -> str | None:
        if self._subtasks.has_ended(message.subtask):
            return "stale"
        if message.plan < self._pauses.plan(message.subtask).number:
            return "stale"  # sent before the pause
        return "stale" if self._pauses.awaits_any(message.subtask) else None
