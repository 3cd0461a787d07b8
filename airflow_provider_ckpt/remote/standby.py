"""A standby worker: its Spark runs, its job is planned, and it waits until another worker is lost.

The slow part of a worker's restart is its process: the JVM, Spark, the plan. A standby worker has finished this part
(Flink: ``slotmanager.redundant-taskmanager-num``). It does no harm if a worker that counts as lost is alive. That
worker finds that a later attempt has opened its log, and exits (W14).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.worker import Worker as Place
from airflow_provider_ckpt.remote.heartbeat_monitor import HeartbeatMonitor
from airflow_provider_ckpt.remote.mailbox import Outbox, read_outbox
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.remote.worker import HOUSEKEEPING, WorkerEnd
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, NewerFormatError, ObjectNotFoundError
from airflow_provider_ckpt.storage.layout import deployment_path, subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog

log = logging.getLogger(__name__)


@dataclass
class _Other:
    """Another worker of the deployment, with its last outbox and its liveness."""

    liveness: HeartbeatMonitor
    outbox: Outbox | None
    """The last outbox that was read; None if it cannot be read, for example because a later version wrote it."""

    def may_run(self, *subtasks: SubtaskId) -> bool:
        """Return True if the other worker may run one of the subtasks, or if its outbox cannot be read."""
        return self.outbox is None or not self.outbox.subtasks.isdisjoint(subtasks)


class Standby:
    """The wait for a subtask that no worker runs. Call :meth:`wait` only one time.

    Args:
        subtasks: The subtasks that this worker can run.
        only_begun: True to ignore a subtask that no worker has begun in this deployment, because its worker may still
            start.
        is_healthy: Returns True if this process could run the subtasks.
        is_process_alive: Returns True if a process is alive; None if this host cannot find out.
        clock: Returns seconds that never decrease.
    """

    def __init__(
        self,
        storage: Storage,
        job_id: str,
        deployment: int,
        subtasks: Iterable[SubtaskId],
        read_state: Callable[[], JobState],
        timing: Timing,
        *,
        only_begun: bool = False,
        is_healthy: Callable[[], bool] = lambda: True,
        is_process_alive: Callable[[Place], bool | None] = is_alive,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._storage, self._folder = storage, deployment_path(job_id, deployment)
        self._deployment, self._subtasks = deployment, tuple(subtasks)
        self._hosts: Mapping[SubtaskId, SubtaskId] = {}
        self._read_state, self._timing, self._is_healthy, self._is_alive = (
            read_state,
            timing,
            is_healthy,
            is_process_alive,
        )
        self._clock, self._sleep = clock, sleep
        self._only_begun, self._job_id = only_begun, job_id
        self._begun: set[SubtaskId] = set()
        self._others: dict[str, _Other] = {}
        self._unrelated: set[str] = set()
        """Workers that run only other subtasks. They are not polled, because the subtasks of a worker never change."""
        self._unreadable: set[str] = set()
        self._finished: frozenset[SubtaskId] = frozenset()
        self._next_check = -math.inf
        self._is_asked_to_leave = False

    def leave(self) -> None:
        """Make :meth:`wait` return soon. Any thread may call this."""
        self._is_asked_to_leave = True

    def wait(self) -> tuple[SubtaskId, ...] | WorkerEnd:
        """Wait for subtasks that no worker runs and return them. If the wait ends otherwise, return the reason.

        After a transient error of the storage the next poll tries again.
        """
        while True:
            try:
                result = self._poll()
                if result is not None:
                    return result
            except TransientError as error:
                log.warning("this poll failed, the next one tries again: %s", error)
            self._sleep(self._timing.poll)

    def _poll(self) -> tuple[SubtaskId, ...] | WorkerEnd | None:
        if self._is_asked_to_leave:
            return WorkerEnd.ASKED
        if self._clock() >= self._next_check and (end := self._end()) is not None:
            return end
        self._poll_others()
        free = self._unassigned
        if not free:
            return None
        self._find_others()  # a replacement may be at work already: it writes its outbox before it begins
        if not self._still_unassigned(free):
            return None
        return self._end() or self._still_unassigned(free) or None  # the run may have ended since then

    def _still_unassigned(self, free: Collection[SubtaskId]) -> tuple[SubtaskId, ...]:
        """Return the subtasks in ``free`` that still have no worker."""
        return tuple(subtask for subtask in self._unassigned if subtask in free)

    def _end(self) -> WorkerEnd | None:
        if not self._is_healthy():
            return WorkerEnd.SPARK_LOST
        state = self._read_state()
        self._next_check = self._clock() + HOUSEKEEPING
        self._finished, self._hosts = frozenset(state.finished), state.hosts
        self._subtasks = state.with_colocated(self._subtasks)
        if state.deployment != self._deployment:
            return WorkerEnd.JOB_OVER
        return WorkerEnd.DONE if self._finished.issuperset(self._subtasks) else None

    def _find_others(self) -> None:
        for name in self._storage.list(self._folder):
            if name.startswith("worker-") and name not in self._others and name not in self._unrelated:
                self._add_other(name)

    def _add_other(self, name: str) -> None:
        reading = self._read(name)
        if reading is None:
            return
        beat, outbox = reading
        liveness = HeartbeatMonitor(self._timing.lost_after, max(4 * self._timing.poll, 2 * HOUSEKEEPING))
        other = _Other(liveness, outbox)
        liveness.observe(beat, self._clock())
        if other.may_run(*self._subtasks):
            self._others[name] = other
        else:
            self._unrelated.add(name)

    def _poll_others(self) -> None:
        for name, other in list(self._others.items()):
            reading = self._read(name)
            if reading is None:  # the JobMaster has deleted the outbox, because others run its subtasks
                del self._others[name]
                continue
            beat, other.outbox = reading
            other.liveness.observe(beat, self._clock())

    def _read(self, name: str) -> tuple[object, Outbox | None] | None:
        """Return (beat, outbox) of a worker; None if it has no outbox.

        For an unreadable outbox the result is (its bytes, None), because any change of the bytes shows that the worker
        is alive.
        """
        path = f"{self._folder}/{name}"
        try:
            outbox = read_outbox(self._storage, path)
            return None if outbox is None else (outbox.beat, outbox)
        except (MalformedDocumentError, NewerFormatError) as error:
            if name not in self._unreadable:
                self._unreadable.add(name)
                log.warning(
                    "the outbox of a worker cannot be read, the worker counts as alive while it changes: %s", error
                )
        try:
            return self._storage.read(path), None
        except ObjectNotFoundError:
            return None

    @property
    def _unassigned(self) -> tuple[SubtaskId, ...]:
        living = [other for other in self._others.values() if self._is_at_work(other)]
        unfinished = [subtask for subtask in self._subtasks if subtask not in self._finished]
        free = [
            subtask for subtask in unfinished if not any(other.may_run(*self._with_host(subtask)) for other in living)
        ]
        if self._only_begun:
            free = [subtask for subtask in free if self._was_begun(subtask)]
        # also the subtasks to which a rescale added the free ones, because later additions go to the same worker
        hosts = {self._hosts[subtask] for subtask in free if subtask in self._hosts}
        return tuple(subtask for subtask in self._subtasks if subtask in free or subtask in hosts)

    def _was_begun(self, subtask: SubtaskId) -> bool:
        """Return True if a worker of this deployment has opened the subtask's log.

        The planner opens it as attempt number 0.
        """
        if subtask not in self._begun:
            log = SubtaskLog(self._storage, subtask_log_path(self._job_id, subtask.vertex, subtask.number))
            log.load()
            opened = log.state.opened
            if opened is not None and opened.attempt.epoch == self._deployment and opened.attempt.number:
                self._begun.add(subtask)
        return subtask in self._begun

    def _with_host(self, subtask: SubtaskId) -> tuple[SubtaskId, ...]:
        """Return the subtask and, if a rescale has added it, the subtask whose worker also runs it."""
        host = self._hosts.get(subtask)
        return (subtask,) if host is None else (subtask, host)

    def _is_at_work(self, other: _Other) -> bool:
        if other.liveness.is_lost:
            return False
        return other.outbox is None or (other.outbox.left is None and self._is_alive(other.outbox.process) is not False)


class Stoppable(Protocol):
    """A standby's wait or a worker's run, which another thread can end early."""

    def leave(self) -> None:
        """Request an early end at which no published work is lost. Any thread may call this."""
