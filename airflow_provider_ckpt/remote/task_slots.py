"""The attempts that a worker runs, from their start through their adoption by each JobMaster.

The worker keeps the state of each attempt, complete enough to report it to the next JobMaster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from airflow_provider_ckpt.coordinator.protocol.commands import (
    Command,
    DeploySubtask,
    PauseSubtask,
    RestartSubtask,
    ResumeSubtask,
)
from airflow_provider_ckpt.coordinator.protocol.reports import (
    Report,
    SourceAtEnd,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskFailed,
    SubtaskOpened,
    SubtaskPaused,
    SubtaskRunning,
)
from airflow_provider_ckpt.jobmaster.gateway import TaskGateway
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.remote.worker_part import WorkerPart

_STATES = (SubtaskRunning, SubtaskPaused, SubtaskAtEndOfData, SubtaskDone, SubtaskFailed)


@dataclass
class RunningAttempts:
    """One attempt that this worker runs.

    ``state`` is the attempt's last reported state. It is None before the first report, and after a command that the
    attempt has not answered.
    """

    subtask: SubtaskId
    attempt: AttemptId
    is_opened: bool = False
    """True once the attempt has opened its log. A restart command resets it until the next attempt opens or fails."""
    is_deployed: bool = False
    state: Report | None = None
    announced: dict[str, SourceAtEnd] = field(default_factory=dict)
    pausing_for: int = 0
    """Epoch of the JobMaster that sent the last pause command; 0 if the attempt need not pause."""
    resumes_with: VertexPlan | None = None
    """The plan to resume with as soon as the attempt has paused, because the JobMaster that paused it is gone."""

    @property
    def is_over(self) -> bool:
        return isinstance(self.state, (SubtaskDone, SubtaskFailed))

    @property
    def is_running(self) -> bool:
        return isinstance(self.state, SubtaskRunning)

    @property
    def is_done(self) -> bool:
        return isinstance(self.state, SubtaskDone)

    def note(self, report: Report) -> None:
        if isinstance(report, _STATES):
            self.state = report
        elif isinstance(report, SourceAtEnd):
            self.announced[report.uid] = report


class TaskSlots:
    """All attempts of one worker.

    Args:
        part: The subtasks that this worker must run.
        say: Sends a report to the current JobMaster, if there is one.
    """

    def __init__(self, part: WorkerPart, say: Callable[[Report], None]) -> None:
        self._part, self._say = part, say
        self._epoch = 0
        """Epoch of the current JobMaster."""
        self._hosted: dict[SubtaskId, RunningAttempts] = {}
        self._not_begun: list[SubtaskId] = []
        self._begun_with: dict[SubtaskId, VertexPlan] = {}
        """Subtask → the plan with which its last attempt began here, updated when it resumes."""

    @property
    def subtasks(self) -> list[SubtaskId]:
        """The subtasks that have reported at least once."""
        return list(self._hosted)

    @property
    def failure(self) -> SubtaskFailed | None:
        """The failure of the first subtask that failed and was not restarted."""
        return next((slot.state for slot in self._hosted.values() if isinstance(slot.state, SubtaskFailed)), None)

    @property
    def is_done(self) -> bool:
        """True if every subtask has finished.

        Only the journal shows whether a JobMaster knows it. The current JobMaster may be gone, and its successor may
        have read the logs too early, so this worker must still report the ends to it.
        """
        done = [slot for slot in self._hosted.values() if slot.is_done]
        return len(done) == len(self._part.attempts)

    def take_in(self, part: WorkerPart, gateway: TaskGateway) -> None:
        """Begin the subtasks that a rescale has added to this worker's part.

        Args:
            part: The new part, which also has all previous subtasks.
            gateway: The tasks of this worker.
        """
        self._not_begun += sorted(part.attempts.keys() - self._part.attempts.keys())
        self._part = part
        if self._hosted:  # else the first subtask is still opening its log, and the others begin after it
            self._begin_first(len(self._not_begun), gateway)

    def begin(self, gateway: TaskGateway) -> None:
        """Begin the first subtask; the others follow when its attempt reports.

        Two workers may be given the same subtasks. Only the worker that opens the first log begins the others.
        Otherwise each would open some of the logs, and each would leave because the other has the rest, again and
        again. The first subtask is therefore an unfinished one, if there is any, because only its log is opened.
        """
        self._not_begun = sorted(self._part.attempts, key=lambda attempt: (attempt in self._part.finished, attempt))
        self._begin_first(1, gateway)

    def _begin_first(self, count: int, gateway: TaskGateway) -> None:
        begun, self._not_begun = self._not_begun[:count], self._not_begun[count:]
        for subtask in begun:
            plan = self._begun_with[subtask] = self._part.plans[subtask]
            gateway.send(RestartSubtask(self._part.deployment, subtask, self._part.attempts[subtask], 0.0, plan))

    def note(self, report: Report, gateway: TaskGateway, *, leaves: bool) -> None:
        """Record a task's report and pass it to the JobMaster.

        Args:
            report: The report.
            gateway: The tasks of this worker.
            leaves: True if this worker is ending. It then begins no further subtask, because its replacement will.
        """
        hosted = self._hosted.get(report.subtask)
        if hosted is None or hosted.attempt < report.attempt:
            hosted = self._hosted[report.subtask] = RunningAttempts(report.subtask, report.attempt)
        elif hosted.attempt != report.attempt:
            return  # from an attempt that is over
        if isinstance(report, SubtaskOpened):
            hosted.is_opened = True
            gateway.begun(report.subtask, report.attempt)
        if not leaves:
            self._begin_first(len(self._not_begun), gateway)
        if isinstance(report, SubtaskPaused) and hosted.resumes_with is not None:
            self._resume(hosted, hosted.resumes_with, gateway)  # the JobMaster that asked for this pause is gone
            return
        hosted.note(report)
        self._say(report)

    # -- the JobMaster

    def introduce(self, epoch: int, gateway: TaskGateway) -> None:
        """Report the attempts of this worker to the JobMaster of ``epoch``, which has taken over the job."""
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

    def carry_out(self, command: Command, gateway: TaskGateway) -> None:
        """Carry out a command of the current JobMaster. Ignore it if its attempt no longer runs here."""
        hosted = self._hosted.get(command.subtask)
        if hosted is None or hosted.attempt != command.attempt:
            return
        match command:
            case DeploySubtask() if hosted.is_deployed:
                self._adopt(hosted, command.plan, gateway)
                return
            case DeploySubtask() if self._was_begun_for_another(hosted, command.plan):
                self._begin_again(hosted, command.plan, gateway)  # it changed after the last read of the journal
                return
            case DeploySubtask():
                hosted.is_deployed = True
            case PauseSubtask() if hosted.is_running:  # else it has reported its end or its failure since
                hosted.pausing_for, hosted.state = self._epoch, None
            case ResumeSubtask():
                hosted.pausing_for, hosted.state = 0, None
                self._goes_on_with(hosted, command.plan)
            case RestartSubtask() if not hosted.is_opened and hosted.state is None:
                return  # the restart is already under way
            case RestartSubtask():
                hosted.is_opened, hosted.state = False, None
                self._begun_with[command.subtask] = command.plan
        gateway.send(command)

    def _adopt(self, hosted: RunningAttempts, plan: VertexPlan, gateway: TaskGateway) -> None:
        """Report the state of an attempt that a previous JobMaster had deployed.

        An attempt may be paused for a change that was never decided, or was decided but never sent. It resumes with the
        current plan.
        """
        for announced in hosted.announced.values():
            if announced.uid not in plan.dropped:
                self._say(announced)
        if isinstance(hosted.state, SubtaskPaused):
            self._resume(hosted, plan, gateway)
        elif hosted.pausing_for not in (0, self._epoch) and hosted.state is None:
            hosted.resumes_with = plan
        elif self._reads_of_fewer(hosted, plan) and not hosted.is_over:
            self._begin_again(hosted, plan, gateway)  # the last JobMaster died before it sent all
        elif hosted.state is not None:
            self._say(hosted.state)

    def _resume(self, hosted: RunningAttempts, plan: VertexPlan, gateway: TaskGateway) -> None:
        """Resume a paused attempt, or restart it if its state must be repartitioned, because only a new attempt can
        (R21).
        """
        hosted.pausing_for, hosted.resumes_with = 0, None
        if self._is_cut_for_another(hosted, plan):
            self._begin_again(hosted, plan, gateway)
            return
        hosted.state = None
        self._goes_on_with(hosted, plan)
        gateway.send(ResumeSubtask(self._part.deployment, hosted.subtask, hosted.attempt, plan))

    def _goes_on_with(self, hosted: RunningAttempts, plan: VertexPlan) -> None:
        """Record that the resumed attempt also reads the new subtasks of a source."""
        begun = self._begun_with[hosted.subtask]
        self._begun_with[hosted.subtask] = replace(begun, parallelism=plan.parallelism)

    def _was_begun_for_another(self, hosted: RunningAttempts, plan: VertexPlan) -> bool:
        return self._is_cut_for_another(hosted, plan) or self._reads_of_fewer(hosted, plan)

    def _reads_of_fewer(self, hosted: RunningAttempts, plan: VertexPlan) -> bool:
        """Return True if the attempt does not know all subtasks of a source that it reads.

        Without a restart it would reach its end without their rows.
        """
        parallelism = self._begun_with[hosted.subtask].parallelism
        sources = self._part.feeds.get(hosted.subtask.vertex, ())
        return any(plan.parallelism.get(uid, 0) > parallelism.get(uid, 0) for uid in sources)

    def _is_cut_for_another(self, hosted: RunningAttempts, plan: VertexPlan) -> bool:
        """Return True if the plan has another number of state partitions. Only a new attempt repartitions its state
        (R21).
        """
        return _parts(plan) != _parts(self._begun_with[hosted.subtask])

    def _begin_again(self, hosted: RunningAttempts, plan: VertexPlan, gateway: TaskGateway) -> None:
        self.carry_out(RestartSubtask(self._part.deployment, hosted.subtask, hosted.attempt, 0.0, plan), gateway)


def _parts(plan: VertexPlan) -> int | None:
    return None if plan.settings is None else plan.settings.state_partitions
