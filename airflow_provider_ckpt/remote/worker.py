"""A worker: a process that runs some of a job's subtasks, for one JobMaster after the other (Flink: TaskExecutor)."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum

from airflow_provider_ckpt.coordinator.commands import (
    Command,
    DeploySubtask,
    PauseSubtask,
    RestartSubtask,
    ResumeSubtask,
)
from airflow_provider_ckpt.coordinator.reports import (
    DataAvailable,
    Report,
    SubtaskFailed,
    SubtaskFenced,
    SubtaskOpened,
    SubtaskPaused,
    TaskReport,
)
from airflow_provider_ckpt.errors import OvertakenError, TransientError
from airflow_provider_ckpt.jobmaster.gateway import TaskGateway
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.errors import LogFencedError
from airflow_provider_ckpt.remote.correspondence import Correspondence, master_name
from airflow_provider_ckpt.remote.errors import DeploymentOverError, SubtaskTakenError
from airflow_provider_ckpt.remote.hosted import Hosted
from airflow_provider_ckpt.remote.liveness import Liveness
from airflow_provider_ckpt.remote.worker_part import WorkerPart

log = logging.getLogger(__name__)

HOUSEKEEPING = 1.0
"""Seconds between looks at the journal, at the logs' owners, at the health of the tasks."""


class WorkerEnd(Enum):
    DONE = "its subtasks have finished"
    JOB_OVER = "the run is over"
    ASKED = "it was told to"
    NO_MASTER = "no JobMaster gives a sign of life"
    SPARK_LOST = "its Spark is gone"
    FAILED = "a subtask of it has failed"


_AT_BOUNDARY = (WorkerEnd.ASKED, WorkerEnd.NO_MASTER, WorkerEnd.FAILED)
"""Another attempt goes on then: what runs comes to the end of its micro-batch first."""


class Worker:
    """Use once: :meth:`run`, in the thread that everything here happens in but for :meth:`post` and :meth:`leave`.

    A report goes to the JobMaster of now. One that comes after it knows what is in the journal and in the logs, and is
    told the rest again: which attempts are there, as if they had just begun, and where each is. Only what reads splits
    begins a new attempt for it: the splits that the JobMaster before had handed out may be handed out to others then,
    which is sound when nobody publishes them any more (W13).

    ``look``: the journal's state, as it is now; ``check_owned``: raises LogFencedError when a later attempt has opened
    the log of a subtask that runs here; ``silence``: seconds without a sign of any JobMaster after which the worker
    leaves (W7). ``make_nonce``: of an attempt.
    """

    def __init__(
        self,
        job_id: str,
        part: WorkerPart,
        correspondence: Correspondence,
        look: Callable[[], JobState],
        check_owned: Callable[[], None],
        *,
        look_interval: float,
        silence: float,
        make_nonce: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job_id, self._part, self._correspondence = job_id, part, correspondence
        self._look, self._check_owned = look, check_owned
        self._interval, self._clock = look_interval, clock
        self._reports: queue.Queue[TaskReport] = queue.Queue()
        self._hosted: dict[SubtaskId, Hosted] = {}
        self._epoch = 0
        self._liveness = Liveness(silence, max(4 * look_interval, 2 * HOUSEKEEPING))
        self._beat: tuple[int, int] = (0, 0)
        self._next_look = 0.0
        self._make_nonce = make_nonce
        self._not_begun: list[SubtaskId] = []
        self._begun_with: dict[SubtaskId, VertexPlan] = {}
        """The plan of the last attempt that was begun here."""
        self._nonces: set[str] = set()
        """Of the attempts that were begun here."""
        self._asked = False
        self._end: WorkerEnd | None = None
        self._status: JobStatus | None = None

    def post(self, report: TaskReport) -> None:
        """For the tasks; any thread."""
        self._reports.put(report)

    def new_nonce(self) -> str:
        """Of an attempt that is about to be begun here; any thread."""
        nonce = self._make_nonce()
        self._nonces.add(nonce)
        return nonce

    def leave(self) -> None:
        """Have :meth:`run` return soon; any thread."""
        self._asked = True

    @property
    def job_status(self) -> JobStatus | None:
        """How the run ended, after JOB_OVER."""
        return self._status

    @property
    def failure(self) -> SubtaskFailed | None:
        """What the first subtask that has failed, and did not begin again, failed with."""
        return next((one.state for one in self._hosted.values() if isinstance(one.state, SubtaskFailed)), None)

    def run(self, gateway: TaskGateway) -> WorkerEnd:
        """Run the subtasks until they have finished or the job is over. Raises OvertakenError: another deployment has
        the job, or another process a subtask."""
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
        """The first of the subtasks by itself: of two processes that are given the same ones only who has the log of
        that goes on to the others. They would each have some of them otherwise, and leave for those that they have not,
        again and again."""
        gateway.start()
        self._not_begun = sorted(self._part.attempts)
        self._begin_first(1, gateway)

    def _begin_first(self, count: int, gateway: TaskGateway) -> None:
        begun, self._not_begun = self._not_begun[:count], self._not_begun[count:]
        for subtask in begun:
            plan = self._begun_with[subtask] = self._part.plans[subtask]
            gateway.send(RestartSubtask(self._part.deployment, subtask, self._part.attempts[subtask], 0.0, plan))

    def _step(self, gateway: TaskGateway) -> None:
        self._take_reports(gateway)
        try:
            is_due = self._clock() >= self._next_look
            if is_due:
                self._look_around(gateway)
            self._listen(gateway)
            if not is_due:  # else that has read on in the inputs: each costs a request
                gateway.pull_inputs(list(self._hosted))
            self._correspondence.deliver()
        except TransientError as error:
            log.warning("this look came to nothing, the next one follows: %s", error)

    def _take_reports(self, gateway: TaskGateway) -> None:
        """Wait a moment for something to happen here, then take all of it."""
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
            case SubtaskFailed() if report.driver_is_lost:  # the JobMaster need not end for it, as a driver would
                log.error("%s failed\n%s", report.subtask, report.stack_trace or report.cause)
                self._end = self._end or WorkerEnd.SPARK_LOST
            case SubtaskFailed() if not (self._part.restarts or report.terminal):
                log.error("%s failed\n%s", report.subtask, report.stack_trace or report.cause)
                self._end = self._end or WorkerEnd.FAILED
                self._note(replace(report, worker_is_lost=True), gateway)  # the next attempt is for another worker
            case _:
                self._note(report, gateway)

    def _refuse_fenced(self, cause: str, by: AttemptId | None) -> None:
        """Unless it was the next attempt, begun here."""
        if by is None or by.nonce not in self._nonces:
            deployment = self._part.deployment
            is_here = by is not None and by.epoch == deployment
            error = SubtaskTakenError if is_here else DeploymentOverError
            raise error(job_id=self._job_id, deployment=deployment, why=cause)

    def _note(self, report: Report, gateway: TaskGateway) -> None:
        hosted = self._hosted.get(report.subtask)
        if hosted is None or hosted.attempt < report.attempt:
            hosted = self._hosted[report.subtask] = Hosted(report.subtask, report.attempt)
        elif hosted.attempt != report.attempt:
            return  # of one that is over
        if isinstance(report, SubtaskOpened):
            hosted.is_opened = True
            gateway.begun(report.subtask, report.attempt)
        if self._end is None:  # who leaves takes none from whoever comes in its place
            self._begin_first(len(self._not_begun), gateway)
        if isinstance(report, SubtaskPaused) and hosted.resumes_with is not None:
            self._resume(hosted, hosted.resumes_with, gateway)  # nobody asks for that pause any more
            return
        hosted.note(report)
        self._say(report)

    def _say(self, report: Report) -> None:
        if self._epoch:  # else it is told by _introduce
            self._correspondence.post(master_name(self._epoch), report)

    # -- the JobMaster

    def _look_around(self, gateway: TaskGateway) -> None:
        self._next_look = self._clock() + HOUSEKEEPING
        if self._asked:
            self._end = WorkerEnd.ASKED
            return
        state = self._look()
        self._follow(state, gateway)
        if self._end is None:
            self._check_attempts()
            gateway.look_around()
            self._judge(state)

    def _check_attempts(self) -> None:
        try:
            self._check_owned()
        except LogFencedError as error:
            self._refuse_fenced(str(error), error.data["attempt"])

    def _follow(self, state: JobState, gateway: TaskGateway) -> None:
        """The journal says who has the job."""
        deployment = self._part.deployment
        if self._is_done and state.finished.issuperset(self._part.attempts):
            self._end = WorkerEnd.DONE
            return
        if state.deployment == deployment:
            if state.epoch not in (self._epoch, deployment):
                self._introduce(state.epoch, gateway)
            return
        if state.status is not None and not state.status.is_alive:
            self._end, self._status = WorkerEnd.JOB_OVER, state.status
            return
        why = f"epoch {state.epoch} has the job ({state.worker})"
        raise DeploymentOverError(job_id=self._job_id, deployment=deployment, why=why)

    def _judge(self, state: JobState) -> None:
        """A claim is a sign of life, too."""
        self._liveness.see((state.epoch, self._beat), self._clock())
        if self._liveness.is_lost:
            self._end = WorkerEnd.DONE if self._is_done else WorkerEnd.NO_MASTER

    def _introduce(self, epoch: int, gateway: TaskGateway) -> None:
        """Another JobMaster has the job: tell it which attempts are here."""
        self._correspondence.speak_to(epoch)
        self._epoch = epoch
        for hosted in self._hosted.values():
            if not hosted.is_opened:
                if isinstance(hosted.state, SubtaskFailed):
                    self._say(hosted.state)
                continue
            if hosted.subtask.vertex in self._part.by_split and hosted.is_deployed and not hosted.is_over:
                self._begin_again(hosted, self._part.plans[hosted.subtask], gateway)
                continue
            self._say(SubtaskOpened(self._part.deployment, hosted.subtask, hosted.attempt))
            if hosted.is_over and hosted.state is not None:
                self._say(hosted.state)

    def _listen(self, gateway: TaskGateway) -> None:
        if not self._epoch:
            return
        outbox, messages = self._correspondence.receive(master_name(self._epoch))
        if outbox is None:
            return
        self._beat = (self._epoch, outbox.beat)
        for message in messages:
            if isinstance(message, Command):
                self._carry_out(message, gateway)
        if outbox.left is not None:
            self._next_look = 0.0  # the journal says what becomes of the job

    def _carry_out(self, command: Command, gateway: TaskGateway) -> None:
        hosted = self._hosted.get(command.subtask)
        if hosted is None or hosted.attempt != command.attempt:
            return
        match command:
            case DeploySubtask() if hosted.is_deployed:
                self._adopt(hosted, command.plan, gateway)
                return
            case DeploySubtask() if self._is_cut_for_another(hosted, command.plan):
                self._begin_again(hosted, command.plan, gateway)  # it was changed when this process looked last
                return
            case DeploySubtask():
                hosted.is_deployed = True
            case PauseSubtask() if hosted.is_running:  # else it has said since that it is at its end, or failed
                hosted.pausing_for, hosted.state = self._epoch, None
            case ResumeSubtask():
                hosted.pausing_for, hosted.state = 0, None
            case RestartSubtask() if not hosted.is_opened and hosted.state is None:
                return  # it is being carried out
            case RestartSubtask():
                hosted.is_opened, hosted.state = False, None
                self._begun_with[command.subtask] = command.plan
        gateway.send(command)

    def _adopt(self, hosted: Hosted, plan: VertexPlan, gateway: TaskGateway) -> None:
        """It was deployed for the JobMaster before, and has gone on since: say where it is. What stands still for a
        change that was never made, or was made and not told, goes on with the plan of now."""
        for announced in hosted.announced.values():
            if announced.uid not in plan.dropped:
                self._say(announced)
        if isinstance(hosted.state, SubtaskPaused):
            self._resume(hosted, plan, gateway)
        elif hosted.pausing_for not in (0, self._epoch) and hosted.state is None:
            hosted.resumes_with = plan
        elif hosted.state is not None:
            self._say(hosted.state)

    def _resume(self, hosted: Hosted, plan: VertexPlan, gateway: TaskGateway) -> None:
        """What stands still for another cut of its state goes on in its next attempt, which makes it (R21)."""
        hosted.pausing_for, hosted.resumes_with = 0, None
        if self._is_cut_for_another(hosted, plan):
            self._begin_again(hosted, plan, gateway)
            return
        hosted.state = None
        gateway.send(ResumeSubtask(self._part.deployment, hosted.subtask, hosted.attempt, plan))

    def _is_cut_for_another(self, hosted: Hosted, plan: VertexPlan) -> bool:
        """An attempt cuts its state anew when it begins, and never later (R21)."""
        return _parts(plan) != _parts(self._begun_with[hosted.subtask])

    def _begin_again(self, hosted: Hosted, plan: VertexPlan, gateway: TaskGateway) -> None:
        self._carry_out(RestartSubtask(self._part.deployment, hosted.subtask, hosted.attempt, 0.0, plan), gateway)

    # -- the end

    @property
    def _is_done(self) -> bool:
        """Each subtask is finished. That a JobMaster knows it the journal says, and nobody else: one that is going to
        take over may have read the logs before, and waits to be told; the one of now may be gone already."""
        done = [one for one in self._hosted.values() if one.is_done]
        return len(done) == len(self._part.attempts)

    def _close(self, gateway: TaskGateway, why: str) -> None:
        at_boundary = self._end in _AT_BOUNDARY or self._status is JobStatus.STOPPED
        gateway.stop(after_batch=at_boundary)
        self._hear_the_rest(why)

    def _hear_the_rest(self, why: str) -> None:
        """What the tasks have said on their way out, and that this process is going. What fails as it is stopped has
        not failed: that nobody runs it any more is told by that."""
        rest: Iterable[TaskReport] = iter(self._reports.get_nowait, None) if not self._reports.empty() else ()
        try:
            for report in rest:
                if not isinstance(report, (DataAvailable, SubtaskFenced, SubtaskFailed)):
                    self._say(report)
        except queue.Empty:
            pass
        self._correspondence.leave(why)
        try:
            self._correspondence.deliver()
        except TransientError as error:
            log.warning("nobody was told that this worker leaves, it will count as lost: %s", error)


def _parts(plan: VertexPlan) -> int | None:
    return None if plan.settings is None else plan.settings.state_partitions
