"""The attempts that a worker runs. They continue when a new JobMaster takes over the job."""

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
class RunningAttempt:
    """One attempt that this worker runs, with its state and its pending commands.

    ``state`` is its last reported state; None before the first report, and while a command has no answer.
    """

    subtask: SubtaskId
    attempt: AttemptId
    is_opened: bool = False
    """True if the attempt has opened its log.

    A restart command sets it to False until the next attempt has opened the log.
    """
    is_deployed: bool = False
    state: Report | None = None
    announced: dict[str, SourceAtEnd] = field(default_factory=dict)
    paused_by: int = 0
    """Epoch of the JobMaster that sent the last pause command; 0 if the attempt need not pause."""
    resume_plan: VertexPlan | None = None
    """The plan to resume with after the pause, if the JobMaster that paused the attempt is gone; otherwise None."""

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
    """All attempts of one worker, and their states, which each new JobMaster needs.

    ``report_to_master`` sends a report to the current JobMaster, if there is one.
    """

    def __init__(self, part: WorkerPart, report_to_master: Callable[[Report], None]) -> None:
        self._part, self._report = part, report_to_master
        self._epoch = 0
        """Epoch of the current JobMaster."""
        self._running: dict[SubtaskId, RunningAttempt] = {}
        self._not_begun: list[SubtaskId] = []
        self._begun_plans: dict[SubtaskId, VertexPlan] = {}
        """Subtask → the plan with which its last attempt in this worker began, or has resumed since."""

    @property
    def subtasks(self) -> list[SubtaskId]:
        """The subtasks that have reported at least one time."""
        return list(self._running)

    @property
    def failure(self) -> SubtaskFailed | None:
        """The failure of the first subtask that failed and was not restarted; None without such a failure."""
        return next((slot.state for slot in self._running.values() if isinstance(slot.state, SubtaskFailed)), None)

    @property
    def is_done(self) -> bool:
        """True if every subtask of this worker has finished.

        The JobMaster may not have journaled the ends of all subtasks. A successor of the current JobMaster may have
        read the logs too early, so this worker must still report the ends.
        """
        done = [slot for slot in self._running.values() if slot.is_done]
        return len(done) == len(self._part.attempts)

    def add_part(self, part: WorkerPart, gateway: TaskGateway) -> None:
        """Begin the subtasks that a rescale has added. ``part`` also contains all previous subtasks."""
        self._not_begun += sorted(part.attempts.keys() - self._part.attempts.keys())
        self._part = part
        if self._running:  # else the first subtask is still opening its log, and the others begin after it
            self._begin_first(len(self._not_begun), gateway)

    def begin(self, gateway: TaskGateway) -> None:
        """Begin the first unfinished subtask. The other subtasks begin when that subtask's attempt has sent a report.

        Two workers may be assigned the same subtasks. Only the worker that opens the first log begins the others.
        Otherwise each worker would open some of the logs, and both would exit because the other one has the rest.
        """
        self._not_begun = sorted(self._part.attempts, key=lambda attempt: (attempt in self._part.finished, attempt))
        self._begin_first(1, gateway)

    def _begin_first(self, count: int, gateway: TaskGateway) -> None:
        begun, self._not_begun = self._not_begun[:count], self._not_begun[count:]
        for subtask in begun:
            plan = self._begun_plans[subtask] = self._part.plans[subtask]
            gateway.send(RestartSubtask(self._part.deployment, subtask, self._part.attempts[subtask], 0.0, plan))

    def note(self, report: Report, gateway: TaskGateway, *, is_ending: bool) -> None:
        """Record a task's report and send it to the JobMaster.

        ``is_ending``: True if this worker is ending. It then begins no further subtask, because its replacement will.
        """
        running = self._running.get(report.subtask)
        if running is None or running.attempt < report.attempt:
            running = self._running[report.subtask] = RunningAttempt(report.subtask, report.attempt)
        elif running.attempt != report.attempt:
            return  # the report is from an attempt that is over
        if isinstance(report, SubtaskOpened):
            running.is_opened = True
            gateway.on_restarted(report.subtask, report.attempt)
        if not is_ending:
            self._begin_first(len(self._not_begun), gateway)
        if isinstance(report, SubtaskPaused) and running.resume_plan is not None:
            self._resume(running, running.resume_plan, gateway)  # the JobMaster that commanded this pause is gone
            return
        running.note(report)
        self._report(report)

    # -- the JobMaster

    def report_all(self, epoch: int, gateway: TaskGateway) -> None:
        """Report the attempts of this worker to the JobMaster of ``epoch``, which has taken over the job."""
        self._epoch = epoch
        for running in self._running.values():
            if not running.is_opened:
                if isinstance(running.state, SubtaskFailed):
                    self._report(running.state)
                continue
            if running.subtask.vertex in self._part.by_split and running.is_deployed and not running.is_over:
                self._restart(running, self._part.plans[running.subtask], gateway)
                continue
            self._report(SubtaskOpened(self._part.deployment, running.subtask, running.attempt))
            if running.is_over and running.state is not None:
                self._report(running.state)

    def carry_out(self, command: Command, gateway: TaskGateway) -> None:
        """Carry out a command of the current JobMaster. Ignore the command if its attempt no longer runs here."""
        running = self._running.get(command.subtask)
        if running is None or running.attempt != command.attempt:
            return
        match command:
            case DeploySubtask() if running.is_deployed:
                self._adopt(running, command.plan, gateway)
                return
            case DeploySubtask() if self._needs_restart(running, command.plan):
                self._restart(running, command.plan, gateway)  # the plan changed after the last read of the journal
                return
            case DeploySubtask():
                running.is_deployed = True
            case PauseSubtask() if running.is_running:  # else it has reported its end or its failure since
                running.paused_by, running.state = self._epoch, None
            case ResumeSubtask():
                running.paused_by, running.state = 0, None
                self._note_resumed(running, command.plan)
            case RestartSubtask() if not running.is_opened and running.state is None:
                return  # the restart is already under way
            case RestartSubtask():
                running.is_opened, running.state = False, None
                self._begun_plans[command.subtask] = command.plan
        gateway.send(command)

    def _adopt(self, running: RunningAttempt, plan: VertexPlan, gateway: TaskGateway) -> None:
        """Report the state of an attempt that a previous JobMaster deployed. A paused attempt resumes with ``plan``."""
        for announced in running.announced.values():
            if announced.uid not in plan.dropped:
                self._report(announced)
        if isinstance(running.state, SubtaskPaused):
            self._resume(running, plan, gateway)
        elif running.paused_by not in (0, self._epoch) and running.state is None:
            running.resume_plan = plan
        elif self._misses_subtasks(running, plan) and not running.is_over:
            self._restart(running, plan, gateway)  # the previous JobMaster died before it sent all restarts
        elif running.state is not None:
            self._report(running.state)

    def _resume(self, running: RunningAttempt, plan: VertexPlan, gateway: TaskGateway) -> None:
        """Resume a paused attempt. Restart it if its state must be repartitioned (R21)."""
        running.paused_by, running.resume_plan = 0, None
        if self._needs_repartition(running, plan):
            self._restart(running, plan, gateway)
            return
        running.state = None
        self._note_resumed(running, plan)
        gateway.send(ResumeSubtask(self._part.deployment, running.subtask, running.attempt, plan))

    def _note_resumed(self, running: RunningAttempt, plan: VertexPlan) -> None:
        begun = self._begun_plans[running.subtask]
        self._begun_plans[running.subtask] = replace(begun, parallelism=plan.parallelism)

    def _needs_restart(self, running: RunningAttempt, plan: VertexPlan) -> bool:
        return self._needs_repartition(running, plan) or self._misses_subtasks(running, plan)

    def _misses_subtasks(self, running: RunningAttempt, plan: VertexPlan) -> bool:
        """Return True if the attempt reads a source that has more subtasks in ``plan`` than when the attempt began."""
        parallelism = self._begun_plans[running.subtask].parallelism
        sources = self._part.feeds.get(running.subtask.vertex, ())
        return any(plan.parallelism.get(uid, 0) > parallelism.get(uid, 0) for uid in sources)

    def _needs_repartition(self, running: RunningAttempt, plan: VertexPlan) -> bool:
        """Return True if ``plan`` changes the number of state partitions, which needs a new attempt (R21)."""
        return _state_partitions(plan) != _state_partitions(self._begun_plans[running.subtask])

    def _restart(self, running: RunningAttempt, plan: VertexPlan, gateway: TaskGateway) -> None:
        self.carry_out(RestartSubtask(self._part.deployment, running.subtask, running.attempt, 0.0, plan), gateway)


def _state_partitions(plan: VertexPlan) -> int | None:
    return None if plan.settings is None else plan.settings.state_partitions
