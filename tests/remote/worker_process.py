"""The real worker over a gateway with simulated tasks."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING

from airflow_provider_ckpt.coordinator.protocol.commands import RestartSubtask
from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskFailed, SubtaskFenced
from airflow_provider_ckpt.errors import CkptError, OvertakenError
from airflow_provider_ckpt.jobmaster.recovery.attempt_names import continues_at
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.worker import Worker as Place
from airflow_provider_ckpt.remote.mailbox import Mailbox, worker_name
from airflow_provider_ckpt.remote.worker import Worker, WorkerEnd
from airflow_provider_ckpt.remote.worker_part import WorkerPart, check_owned
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.local_gateway import LocalGateway
from airflow_provider_ckpt.task.phase import TaskPhase
from airflow_provider_ckpt.task.restarts import Restarts
from airflow_provider_ckpt.task.task import Task
from tests.remote.process import NoWait, SimulatedProcess
from tests.simulation.runner import BatchRunner, Runner
from tests.simulation.split_runner import SplitRunner
from tests.simulation.world import JOB
from tests.task.synthetic import SyntheticTask

if TYPE_CHECKING:
    from tests.remote.cluster import Cluster


class SteppedTask(SyntheticTask):
    """A task without a thread: it takes a step when its process does."""

    is_deployed = False

    def deploy(self, plan: VertexPlan) -> None:
        self._do(lambda: self._runner.deploy(plan))
        self.is_deployed = True

    def pull_inputs(self) -> None:
        if self.is_deployed and not self._is_over:
            self._do(self._runner.poll_barriers)

    def close(self) -> None:
        """Do nothing, because nothing runs between two steps."""

    @property
    def can_run(self) -> bool:
        return self.is_deployed and not self._is_over and self._runner.machine.phase is not TaskPhase.FINISHED

    def take_step(self, report: Callable[[BaseException], None]) -> None:
        try:
            self._do(self._step)
        except Exception as error:
            self._is_over = True
            report(error)


class LaterRestarts(Restarts):
    """Restarts without a thread: they run one after the other at later steps."""

    waiting: list[tuple[RestartSubtask, tuple[Task, ...]]]

    def begin(self, command: RestartSubtask, before: Iterable[Task]) -> None:
        self.waiting.append((command, (*self._unstopped.pop(command.subtask, ()), *before)))

    def carry_out(self, number: int) -> None:
        self._run(*self.waiting.pop(number))


class WorkerProcess(SimulatedProcess):
    """A simulated worker.

    ``subtasks``: those it runs. ``supervised``: None if the supervisor does not count its tries.
    """

    def __init__(
        self, cluster: Cluster, name: str, subtasks: tuple[SubtaskId, ...], seed: str, supervised: SupervisedTry | None
    ) -> None:
        super().__init__(cluster, name)
        self.supervised = supervised
        self.shown_as = name
        """The name under which other processes see this one."""
        self.subtasks, self.random = subtasks, Random(seed)
        # one counter per process: a task's seed contains the nonce and must depend on nothing else
        self._nonces = itertools.count(1)
        self.end: WorkerEnd | None = None
        self.tasks: list[SteppedTask] = []
        self.logs: dict[SubtaskId, SubtaskLog] = {}
        self._readers: dict[SubtaskId, TailingLogReader] = {}
        self._journal = Journal(self.storage, JOB, clock=cluster.clock)
        self._begun = False

    # -- steps

    def step(self) -> None:
        if not self._begun:
            self._start()
            return
        running = [task for task in self.tasks if task.can_run]
        chance = self.random.random()
        if self.restarts.waiting and chance < 0.4:
            self.restarts.carry_out(self.random.randrange(len(self.restarts.waiting)))
        elif running and chance < 0.7:
            task = self.random.choice(running)
            task.take_step(lambda error: self.crashed(task, error))
        else:
            self._turn()

    def _start(self) -> None:
        state = self._journal.refresh()
        if not state.deployment:
            self.is_over = state.status is JobStatus.FINISHED
            return
        self.deployment, timing = state.deployment, self.cluster.timing
        self._graph = state.graph()
        subtasks = self._chosen(state)
        part = WorkerPart.of(self.storage, state, subtasks, restarts=self.cluster.restarts)
        correspondence = Mailbox(
            self.storage,
            JOB,
            state.deployment,
            worker_name(self.shown_as),
            Place(self.shown_as),
            self.cluster.clock,
            subtasks,
        )
        self.worker = Worker(
            JOB,
            part,
            correspondence,
            self._journal.refresh,
            functools.partial(check_owned, self.logs),
            lambda part, state: part.with_added_subtasks(self.storage, state),
            poll_interval=timing.poll,
            silence=timing.silence,
            make_nonce=lambda: f"{self.name}x{next(self._nonces)}",
            clock=self.cluster.clock,
        )
        self.worker._reports = NoWait()
        self.restarts = LaterRestarts(self, self.worker.post, self.worker.new_nonce)
        self.restarts.waiting = []
        self.gateway = LocalGateway(state.deployment, {}, self.crashed, self.restarts)
        self.worker._begin(self.gateway)
        self._begun = True

    def _chosen(self, state: JobState) -> tuple[SubtaskId, ...]:
        """Choose subtasks like ``spark.worker_run.chosen``, which needs Spark."""
        if not self.cluster.by_vertex:
            return state.with_colocated(self.subtasks)
        names = dict.fromkeys(subtask.vertex for subtask in self.subtasks)
        return tuple(subtask for name in names for subtask in state.subtasks_of_process(name))

    def _turn(self) -> None:
        """Do one turn of :meth:`Worker.run`."""
        worker = self.worker
        try:
            worker._step(self.gateway)
        except CkptError as error:
            overtaken = isinstance(error, OvertakenError)
            worker._close(self.gateway, "it was overtaken" if overtaken else "it has failed")
            raise
        if worker._end is not None:
            self.end = worker._end
            worker._close(self.gateway, worker._end.value)
            self.is_over = True

    # -- tasks

    def begin(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan) -> SteppedTask | None:
        world, graph = self.cluster.world, self._graph
        log = SubtaskLog(self.storage, subtask_log_path(JOB, subtask.vertex, subtask.number))
        log.load()
        if log.state.closed:
            return None
        self.cluster.may_fail(self, "before an attempt has opened its log")
        by_split, batch = graph.vertex(subtask.vertex).splits, self.cluster.mode == "batch"
        resumes = continues_at(log, batch=batch, by_split=by_split)
        if log.open(attempt, resumes, supervised=self.supervised, unless_closed=True).closed:
            return None
        self.logs[subtask] = log
        self.cluster.may_fail(self, "after an attempt has opened its log")
        kind: type[Runner] = BatchRunner if batch else self.cluster.streaming_runner
        kind = SplitRunner if by_split else kind
        runner = kind(world, graph, subtask, self.deployment, attempt, log, self._reader, plan)
        task = SteppedTask(runner, self.worker.post, self.cluster.before_step, f"{self.name}/{attempt}")
        self.tasks.append(task)
        return task

    def _reader(self, subtask: SubtaskId) -> TailingLogReader:
        path = subtask_log_path(JOB, subtask.vertex, subtask.number)
        return self._readers.setdefault(subtask, TailingLogReader(self.storage, path))

    def crashed(self, task: Task, error: BaseException) -> None:
        self.failed(task.subtask, task.attempt, error)

    def failed(self, subtask: SubtaskId, attempt: AttemptId, error: BaseException) -> None:
        """Report the failure as the real worker does.

        Raise a simulated crash instead, because a dead process reports nothing.
        """
        if not isinstance(error, Exception):
            raise error
        world = (self.deployment, subtask, attempt)
        if isinstance(error, LogFencedError):
            self.worker.post(SubtaskFenced(*world, str(error), error.data["attempt"]))
        else:
            self.worker.post(SubtaskFailed(*world, f"{type(error).__name__}: {error}"))
