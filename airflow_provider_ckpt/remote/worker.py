"""A worker: a process that runs some subtasks of a job, for one JobMaster after another (Flink: TaskExecutor)."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum

from airflow_provider_ckpt.coordinator.protocol.commands import (
    Command,
)
from airflow_provider_ckpt.coordinator.protocol.reports import (
    DataAvailable,
    QueryMeasured,
    ReadingBegun,
    Report,
    SubtaskFailed,
    SubtaskFenced,
    TaskReport,
)
from airflow_provider_ckpt.errors import OvertakenError, TransientError
from airflow_provider_ckpt.jobmaster.gateway import TaskGateway
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.remote.errors import DeploymentOverError, SubtaskTakenError
from airflow_provider_ckpt.remote.heartbeat_monitor import HeartbeatMonitor
from airflow_provider_ckpt.remote.mailbox import Mailbox, master_name
from airflow_provider_ckpt.remote.task_slots import TaskSlots
from airflow_provider_ckpt.remote.worker_part import WorkerPart
from airflow_provider_ckpt.subtasklog.errors import LogFencedError

log = logging.getLogger(__name__)

MAX_UNREAD = 100
"""Measurements are dropped while this many messages are unread, because each outbox write writes all messages."""
HOUSEKEEPING = 1.0
"""Seconds between checks of the journal, of the logs' owners, and of the tasks' errors."""


class WorkerEnd(Enum):
    DONE = "its subtasks have finished"
    JOB_OVER = "the run is over"
    ASKED = "it was asked to stop"
    NO_MASTER = "no JobMaster gives a sign of life"
    SPARK_LOST = "its Spark is gone"
    FAILED = "one of its subtasks has failed"


_AT_BOUNDARY = (WorkerEnd.ASKED, WorkerEnd.NO_MASTER, WorkerEnd.FAILED)
"""Reasons for an end before which running micro-batches are completed, because another attempt will continue."""


class Worker:
    """The loop of one worker. Call :meth:`run` only one time. Only :meth:`post` and :meth:`leave` are thread-safe.

    A new JobMaster reads the journal and the logs. The worker reports everything else to it again: which attempts run,
    as if they had just begun, and their states. Subtasks that read splits begin a new attempt instead. The new
    JobMaster may assign their splits to other subtasks, and then no earlier attempt may publish these splits (W13).

    Args:
        check_owned: Raises LogFencedError if a later attempt has opened the log of a subtask that runs here.
        extend_part: See :meth:`WorkerPart.with_added_subtasks`.
        poll_interval: Seconds between two polls of the JobMaster's outbox.
        silence: Seconds without a JobMaster's claim or beat after which the worker exits (W7).
        clock: Returns seconds that never decrease.
    """

    def __init__(
        self,
        job_id: str,
        part: WorkerPart,
        mailbox: Mailbox,
        read_state: Callable[[], JobState],
        check_owned: Callable[[], None],
        extend_part: Callable[[WorkerPart, JobState], WorkerPart],
        *,
        poll_interval: float,
        silence: float,
        make_nonce: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job_id, self._part, self._mailbox = job_id, part, mailbox
        self._read_state, self._check_owned, self._extend_part = read_state, check_owned, extend_part
        self._interval, self._clock = poll_interval, clock
        self._reports: queue.Queue[TaskReport] = queue.Queue()
        self._slots = TaskSlots(part, self._send)
        self._epoch = 0
        self._liveness = HeartbeatMonitor(silence, max(4 * poll_interval, 2 * HOUSEKEEPING))
        self._beat: tuple[int, int] = (0, 0)
        self._next_check = 0.0
        self._make_nonce = make_nonce
        self._nonces: set[str] = set()
        """The nonces of all attempts that began in this worker."""
        self._is_asked_to_leave = False
        self._end: WorkerEnd | None = None
        self._status: JobStatus | None = None

    def post(self, report: TaskReport) -> None:
        """Queue a task's report. Any thread may call this."""
        self._reports.put(report)

    def new_nonce(self) -> str:
        """Return the nonce for an attempt that is about to begin here. Any thread may call this."""
        nonce = self._make_nonce()
        self._nonces.add(nonce)
        return nonce

    def leave(self) -> None:
        """Make :meth:`run` return soon. Any thread may call this."""
        self._is_asked_to_leave = True

    @property
    def job_status(self) -> JobStatus | None:
        """The job's status at the end of the run, if :meth:`run` has returned JOB_OVER; otherwise None."""
        return self._status

    @property
    def failure(self) -> SubtaskFailed | None:
        """The failure of the first subtask that failed and was not restarted; None without such a failure."""
        return self._slots.failure

    def run(self, gateway: TaskGateway) -> WorkerEnd:
        """Run the subtasks until they have finished or the job is over. Return the reason for the end.

        Raises OvertakenError if another deployment runs the job, or if another process runs a subtask of this worker.
        """
        why = "it has failed"
        try:
            self._begin(gateway)
            while self._end is None:
                self._step(gateway)
            why = self._end.value
            return self._end
        except OvertakenError:
            why = "it was overtaken"
            raise
        finally:
            self._close(gateway, why)

    # -- the loop

    def _begin(self, gateway: TaskGateway) -> None:
        try:
            self._mailbox.deliver()  # standby workers take every subtask that was begun and has no living worker
        except TransientError as error:
            log.warning("this worker could not be announced, the next poll tries again: %s", error)
        gateway.start()
        self._slots.begin(gateway)

    def _step(self, gateway: TaskGateway) -> None:
        self._take_reports(gateway)
        try:
            is_due = self._clock() >= self._next_check
            if is_due:
                self._check_all(gateway)
            self._poll_master(gateway)
            if not is_due:  # else `poll_changes` has read the inputs, and each read costs a request
                gateway.pull_inputs(self._slots.subtasks)
            self._mailbox.deliver()
        except TransientError as error:
            log.warning("this poll failed, the next one tries again: %s", error)

    def _take_reports(self, gateway: TaskGateway) -> None:
        """Wait for a report, at most one poll interval, and handle all queued reports."""
        try:
            self._take(self._reports.get(timeout=self._interval), gateway)
            while True:
                self._take(self._reports.get_nowait(), gateway)
        except queue.Empty:
            pass

    def _take(self, report: TaskReport, gateway: TaskGateway) -> None:
        match report:
            case DataAvailable():
                gateway.pull_inputs(report.consumers)
            case SubtaskFenced():
                self._refuse_fenced(f"{report.subtask} was taken over: {report.cause}", report.by)
            case SubtaskFailed():
                log.error("%s failed\n%s", report.subtask, report.stack_trace or report.cause)
                self._take_failed(replace(report, stack_trace=""), gateway)
            case ReadingBegun():
                pass  # only a JobMaster in the same process counts `stop_after` from this report
            case _:
                self._note(report, gateway)

    def _take_failed(self, report: SubtaskFailed, gateway: TaskGateway) -> None:
        """Report a failure to the JobMaster, or end this worker. Only this worker's log has the stack trace."""
        if report.driver_is_lost:  # unlike a driver, the JobMaster continues without this Spark
            self._end = self._end or WorkerEnd.SPARK_LOST
        elif self._part.restarts or report.terminal:
            self._note(report, gateway)
        else:
            self._end = self._end or WorkerEnd.FAILED
            self._note(replace(report, worker_is_lost=True), gateway)  # another worker must run the next attempt

    def _refuse_fenced(self, cause: str, by: AttemptId | None) -> None:
        """Raise an error if attempt ``by``, which has taken over a subtask, did not begin in this worker."""
        if by is None or by.nonce not in self._nonces:
            deployment = self._part.deployment
            is_here = by is not None and by.epoch == deployment
            error = SubtaskTakenError if is_here else DeploymentOverError
            raise error(job_id=self._job_id, deployment=deployment, why=cause)

    def _note(self, report: Report, gateway: TaskGateway) -> None:
        self._slots.note(report, gateway, is_ending=self._end is not None)

    def _send(self, report: Report) -> None:
        if not self._epoch:  # the next JobMaster gets all states
            return
        master = master_name(self._epoch)
        if isinstance(report, QueryMeasured) and self._mailbox.unread_count(master) >= MAX_UNREAD:
            return  # the JobMaster reads its messages too late, and a late measurement is useless
        self._mailbox.post(master, report)

    # -- the JobMaster

    def _check_all(self, gateway: TaskGateway) -> None:
        self._next_check = self._clock() + HOUSEKEEPING
        if self._is_asked_to_leave:
            self._end = WorkerEnd.ASKED
            return
        state = self._read_state()
        self._follow(state, gateway)
        if self._end is None:
            self._check_attempts()
            gateway.poll_changes()
            self._check_master(state)

    def _check_attempts(self) -> None:
        try:
            self._check_owned()
        except LogFencedError as error:
            self._refuse_fenced(str(error), error.data["attempt"])

    def _follow(self, state: JobState, gateway: TaskGateway) -> None:
        """Compare the journal with this worker's state, and report to a new JobMaster.

        Raises DeploymentOverError if another deployment runs the job.
        """
        deployment = self._part.deployment
        if state.deployment == deployment and len(state.with_colocated(self._part.attempts)) > len(self._part.attempts):
            # before the end is decided, because a subtask that was just added is not done
            self._check_attempts()  # a worker that has taken over these subtasks also runs the new one
            self._part = self._extend_part(self._part, state)
            self._slots.add_part(self._part, gateway)
        if self._slots.is_done and state.finished.issuperset(self._part.attempts):
            self._end = WorkerEnd.DONE
            return
        if state.deployment == deployment:
            if state.epoch not in (self._epoch, deployment):
                self._mailbox.follow_master(state.epoch)
                self._epoch = state.epoch
                self._slots.report_all(state.epoch, gateway)
            return
        if state.status is not None and not state.status.is_alive:
            self._end, self._status = WorkerEnd.JOB_OVER, state.status
            return
        why = f"epoch {state.epoch} has the job ({state.worker})"
        raise DeploymentOverError(job_id=self._job_id, deployment=deployment, why=why)

    def _check_master(self, state: JobState) -> None:
        """End the worker if no JobMaster is alive. A claim counts like a new beat."""
        self._liveness.observe((state.epoch, self._beat), self._clock())
        if self._liveness.is_lost:
            self._end = WorkerEnd.DONE if self._slots.is_done else WorkerEnd.NO_MASTER

    def _poll_master(self, gateway: TaskGateway) -> None:
        if not self._epoch:
            return
        outbox, messages = self._mailbox.receive(master_name(self._epoch))
        if outbox is None:
            return
        self._beat = (self._epoch, outbox.beat)
        for message in messages:
            if isinstance(message, Command):
                self._slots.carry_out(message, gateway)
        if outbox.left is not None:
            self._next_check = 0.0  # read the journal now, because it has the end of the job

    # -- the end

    def _close(self, gateway: TaskGateway, why: str) -> None:
        at_boundary = self._end in _AT_BOUNDARY or self._status is JobStatus.STOPPED
        gateway.stop(after_batch=at_boundary)
        self._send_last_reports(why)

    def _send_last_reports(self, why: str) -> None:
        """Send the last reports and announce the end of this worker. Omit failures, which the stop may cause."""
        rest: Iterable[TaskReport] = iter(self._reports.get_nowait, None) if not self._reports.empty() else ()
        try:
            for report in rest:
                if isinstance(report, Report) and not isinstance(report, SubtaskFailed):
                    self._send(report)
        except queue.Empty:
            pass
        self._mailbox.leave(why)
        try:
            self._mailbox.deliver()
        except TransientError as error:
            log.warning("this worker could not announce that it leaves, it will count as lost: %s", error)
