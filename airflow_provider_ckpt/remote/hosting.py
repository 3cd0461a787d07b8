"""The attempts that a worker runs: how they begin, and what one JobMaster after the other makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from airflow_provider_ckpt.coordinator.commands import (
    Command,
    DeploySubtask,
    PauseSubtask,
    RestartSubtask,
    ResumeSubtask,
)
from airflow_provider_ckpt.coordinator.reports import Report, SubtaskFailed, SubtaskOpened, SubtaskPaused
from airflow_provider_ckpt.jobmaster.gateway import TaskGateway
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.remote.hosted import Hosted
from airflow_provider_ckpt.remote.worker_part import WorkerPart


class Hosting:
    """``say``: to the JobMaster of now, if there is one."""

    def __init__(self, part: WorkerPart, say: Callable[[Report], None]) -> None:
        self._part, self._say = part, say
        self._epoch = 0
        """Of the JobMaster of now."""
        self._hosted: dict[SubtaskId, Hosted] = {}
        self._not_begun: list[SubtaskId] = []
        self._begun_with: dict[SubtaskId, VertexPlan] = {}
        """The plan of the last attempt that was begun here, as far as it holds."""

    @property
    def subtasks(self) -> list[SubtaskId]:
        """Those that something is known of."""
        return list(self._hosted)

    @property
    def failure(self) -> SubtaskFailed | None:
        """What the first subtask that has failed, and did not begin again, failed with."""
        return next((one.state for one in self._hosted.values() if isinstance(one.state, SubtaskFailed)), None)

    @property
    def is_done(self) -> bool:
        """Each subtask is finished. That a JobMaster knows it the journal says, and nobody else: one that is going to
        take over may have read the logs before, and waits to be told; the one of now may be gone already."""
        done = [one for one in self._hosted.values() if one.is_done]
        return len(done) == len(self._part.attempts)

    def take_in(self, part: WorkerPart, gateway: TaskGateway) -> None:
        """``part``: with subtasks that run beside those of before since a rescale; they begin now."""
        self._not_begun += sorted(part.attempts.keys() - self._part.attempts.keys())
        self._part = part
        if self._hosted:  # else the first of all is on its way
            self._begin_first(len(self._not_begun), gateway)

    def begin(self, gateway: TaskGateway) -> None:
        """The first of the subtasks by itself: of two processes that are given the same ones only who has the log of
        that goes on to the others. They would each have some of them otherwise, and leave for those that they have not,
        again and again. So it is one that has a log to be opened, if any has."""
        self._not_begun = sorted(self._part.attempts, key=lambda one: (one in self._part.finished, one))
        self._begin_first(1, gateway)

    def _begin_first(self, count: int, gateway: TaskGateway) -> None:
        begun, self._not_begun = self._not_begun[:count], self._not_begun[count:]
        for subtask in begun:
            plan = self._begun_with[subtask] = self._part.plans[subtask]
            gateway.send(RestartSubtask(self._part.deployment, subtask, self._part.attempts[subtask], 0.0, plan))

    def note(self, report: Report, gateway: TaskGateway, *, leaves: bool) -> None:
        """A task has said something. ``leaves``: this process is going, and takes none from whoever comes in its
        place."""
        hosted = self._hosted.get(report.subtask)
        if hosted is None or hosted.attempt < report.attempt:
            hosted = self._hosted[report.subtask] = Hosted(report.subtask, report.attempt)
        elif hosted.attempt != report.attempt:
            return  # of one that is over
        if isinstance(report, SubtaskOpened):
            hosted.is_opened = True
            gateway.begun(report.subtask, report.attempt)
        if not leaves:
            self._begin_first(len(self._not_begun), gateway)
        if isinstance(report, SubtaskPaused) and hosted.resumes_with is not None:
            self._resume(hosted, hosted.resumes_with, gateway)  # nobody asks for that pause any more
            return
        hosted.note(report)
        self._say(report)

    # -- the JobMaster

    def introduce(self, epoch: int, gateway: TaskGateway) -> None:
        """The JobMaster of ``epoch`` has the job: tell it which attempts are here."""
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
        """What the JobMaster of now wants; of an attempt that is not here any more it wants nothing."""
        hosted = self._hosted.get(command.subtask)
        if hosted is None or hosted.attempt != command.attempt:
            return
        match command:
            case DeploySubtask() if hosted.is_deployed:
                self._adopt(hosted, command.plan, gateway)
                return
            case DeploySubtask() if self._was_begun_for_another(hosted, command.plan):
                self._begin_again(hosted, command.plan, gateway)  # it was changed when this process looked last
                return
            case DeploySubtask():
                hosted.is_deployed = True
            case PauseSubtask() if hosted.is_running:  # else it has said since that it is at its end, or failed
                hosted.pausing_for, hosted.state = self._epoch, None
            case ResumeSubtask():
                hosted.pausing_for, hosted.state = 0, None
                self._goes_on_with(hosted, command.plan)
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
        elif self._reads_of_fewer(hosted, plan) and not hosted.is_over:
            self._begin_again(hosted, plan, gateway)  # the JobMaster before died before it had told of the others
        elif hosted.state is not None:
            self._say(hosted.state)

    def _resume(self, hosted: Hosted, plan: VertexPlan, gateway: TaskGateway) -> None:
        """What stands still for another cut of its state goes on in its next attempt, which makes it (R21)."""
        hosted.pausing_for, hosted.resumes_with = 0, None
        if self._is_cut_for_another(hosted, plan):
            self._begin_again(hosted, plan, gateway)
            return
        hosted.state = None
        self._goes_on_with(hosted, plan)
        gateway.send(ResumeSubtask(self._part.deployment, hosted.subtask, hosted.attempt, plan))

    def _goes_on_with(self, hosted: Hosted, plan: VertexPlan) -> None:
        """Who goes on reads the new subtasks of a source, too."""
        begun = self._begun_with[hosted.subtask]
        self._begun_with[hosted.subtask] = replace(begun, parallelism=plan.parallelism)

    def _was_begun_for_another(self, hosted: Hosted, plan: VertexPlan) -> bool:
        return self._is_cut_for_another(hosted, plan) or self._reads_of_fewer(hosted, plan)

    def _reads_of_fewer(self, hosted: Hosted, plan: VertexPlan) -> bool:
        """It does not know all subtasks of a source that it reads: it would come to its end without these."""
        known = self._begun_with[hosted.subtask].parallelism
        feeds = self._part.feeds.get(hosted.subtask.vertex, ())
        return any(plan.parallelism.get(uid, 0) > known.get(uid, 0) for uid in feeds)

    def _is_cut_for_another(self, hosted: Hosted, plan: VertexPlan) -> bool:
        """An attempt cuts its state anew when it begins, and never later (R21)."""
        return _parts(plan) != _parts(self._begun_with[hosted.subtask])

    def _begin_again(self, hosted: Hosted, plan: VertexPlan, gateway: TaskGateway) -> None:
        self.carry_out(RestartSubtask(self._part.deployment, hosted.subtask, hosted.attempt, 0.0, plan), gateway)


def _parts(plan: VertexPlan) -> int | None:
    return None if plan.settings is None else plan.settings.state_partitions
