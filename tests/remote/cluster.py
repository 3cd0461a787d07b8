"""A simulated deployment: a planner, JobMasters and workers that share only the storage.

Each is a process of its own, and one of them takes a step at a time. No thread runs, and no process blocks. The seed
decides everything: which process runs next, also between two storage verbs of another process's step; which process is
killed, at any verb; which process pauses and wakes up next to its successor; which process is started twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from random import Random

from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.job.sink_operator import SinkOperator
from airflow_provider_ckpt.jobmaster.retention.collector import clean_up
from airflow_provider_ckpt.journal.events import EpochClaimed
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import StopRequest
from airflow_provider_ckpt.model.job_status import JobStatus, RuntimeMode
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.testing.crash import SimulatedCrash
from tests.remote.master_process import MasterProcess, Planner
from tests.remote.process import SimulatedProcess
from tests.remote.rescale_requests import request_random_parallelism, request_rescale
from tests.remote.standby_process import StandbyProcess
from tests.remote.worker_process import WorkerProcess
from tests.remote.world import RemoteWorld
from tests.simulation.runner import Runner, StreamingRunner
from tests.simulation.world import JOB
from tests.task.synthetic import RowSink

NESTED = 0.04
"""Probability that another process takes a step between two verbs of one step."""


class KeptRowSink(RowSink):
    """A sink that keeps its staged rows when the job is FINISHED, so that the test can compare them."""

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        if Journal(self._world.storage, JOB).replay().status is JobStatus.FINISHED:
            return []
        return super().collect_garbage(live_handles, live_attempts)


class NotOverError(AssertionError):
    """The job did not finish although no more faults were injected."""


class FakeClock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Cluster:
    """A simulated deployment of one job.

    ``groups``: for each worker its subtasks. ``faults``: probability of a fault at each step.
    """

    timing = Timing(poll=0.05, lost_after=6.0, silence=40.0)
    checkpoint_interval = 0.3

    def __init__(
        self,
        graph: JobGraph,
        rows: dict[tuple[str, str], int],
        mode: RuntimeMode,
        groups: Sequence[tuple[SubtaskId, ...]],
        *,
        name: str,
        seed: int,
        faults: float = 0.0,
        splits: dict[str, dict[str, int]] | None = None,
    ) -> None:
        self.world = RemoteWorld(graph, rows, name=name, splits=splits or {})
        self.graph, self.mode, self.groups, self.faults = graph, mode, tuple(groups), faults  # the graph as declared
        self.random, self.seed, self.clock = Random(seed), seed, FakeClock()
        self.sinks: dict[str, BoundSink] = {
            uid: KeptRowSink(self.world, uid) for vertex in graph.vertices for uid in vertex.sinks
        }
        self.operators: tuple[SinkOperator, ...] = ()
        """The sinks as the job declares them, in tests that need them."""
        self.controllers: tuple[Controller, ...] = ()
        """The job's controllers. Every JobMaster uses the same objects."""
        self.restart_attempts, self.patience = 10_000, 60.0
        self.restarts = True
        """True: a worker restarts its failed subtask.

        False: the worker leaves, and the supervisor starts another one.
        """
        self.before_step: Callable[[Runner], bool] = lambda runner: True
        self.streaming_runner: type[Runner] = StreamingRunner
        self.processes: list[SimulatedProcess] = []
        self.supervises = True
        self.standbys, self.took_over = 0, 0
        """Number of standby workers; number of times that a standby worker took subtasks over."""
        self.replaces = True
        """True: the supervisor restarts lost workers.

        False: it starts each worker once, and standby workers take over.
        """
        self.rescales = 0.0
        """Probability of a rescale request for sources with splits, at each step."""
        self.by_vertex = False
        """True: the supervisor assigns whole vertices; one worker runs all subtasks of its vertices."""
        self.room: int | None = None
        """Number of workers that may run at a time; None: no limit."""
        self.steps = 0
        self.left: dict[str, list[str]] = {}
        """The files in partitions after the job had FINISHED and all processes had ended."""
        self.counts_tries = seed % 2 == 0
        """True: the supervisor passes each worker the number of its try (W14)."""
        self._tries: dict[tuple[SubtaskId, ...], int] = {}
        self._names = 0
        self._depth = 0
        self._watched = Journal(self.world.live, JOB)

    @property
    def state(self) -> JobState:
        return self._watched.state

    # -- steps

    def run(self, until: Callable[[], bool], limit: int = 20_000) -> None:
        """Take steps until ``until()`` is true.

        Raises NotOverError after ``limit`` steps.
        """
        for _ in range(limit):
            if until():
                return
            self.step()
        alive = [process.name for process in self.processes if not process.is_over]
        raise NotOverError(f"seed {self.seed}: {self.state.status} after {self.steps} steps, alive: {alive}")

    def step(self) -> None:
        self.steps += 1
        self.clock.now += self.random.uniform(0.0, 0.04)
        self.world.now = self.clock.now
        if self.random.random() < self.faults:
            self._fault()
        if self.rescales and self.random.random() < self.rescales:
            request_random_parallelism(self.world.live, self.state, self.random)
        if self.steps % 4 == 0:  # checking costs more than a step does
            self._watched.refresh()
            self.world.look()
            if self.supervises:
                self._supervise()
        self._run_one()
        self.processes = [process for process in self.processes if not process.is_over]

    def _run_one(self, other_than: SimulatedProcess | None = None) -> None:
        ready = [process for process in self.processes if process.can_run and process is not other_than]
        if ready:
            self.random.choice(ready).run()

    def at_verb(self, process: SimulatedProcess, when: str, verb: str, path: str) -> None:
        """Crash, fail or run another process, right before or after a verb of ``process``."""
        if self.random.random() < self.faults / 20:
            process.is_over = True
            raise SimulatedCrash(f"{process.name} {when} {verb} {path}")
        if "/deployments/" in path and self.random.random() < self.faults:
            raise StorageTransientError(verb=verb, uri=path, reason="on purpose")
        if self._depth < 2 and self.random.random() < NESTED:
            self._depth += 1
            try:
                self._run_one(process)
            finally:
                self._depth -= 1

    def may_fail(self, process: SimulatedProcess, moment: str) -> None:
        if self.random.random() < self.faults * 4:
            raise OSError(f"{process.name}: {moment}")

    # -- processes

    def add(self, process: SimulatedProcess) -> SimulatedProcess:
        self.processes.append(process)
        return process

    def planner(self) -> Planner:
        return Planner(self, self._name("p"))

    def master(self) -> MasterProcess:
        return MasterProcess(self, self._name("m"))

    def worker(self, subtasks: tuple[SubtaskId, ...]) -> WorkerProcess:
        name = self._name("w")
        number = self._tries[subtasks] = self._tries.get(subtasks, 0) + 1
        supervised = SupervisedTry(",".join(subtasks), number) if self.counts_tries else None
        return WorkerProcess(self, name, subtasks, f"{self.seed}/{name}", supervised)

    def standby(self) -> StandbyProcess:
        name = self._name("s")
        return StandbyProcess(self, name, f"{self.seed}/{name}")

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    def awake(self, kind: type[SimulatedProcess]) -> list[SimulatedProcess]:
        return [
            process
            for process in self.processes
            if isinstance(process, kind) and not process.is_over and self._is_awake(process)
        ]

    def _is_awake(self, process: SimulatedProcess) -> bool:
        return self.clock.now >= process.wakes_at

    def _supervise(self) -> None:
        """Start missing processes, with a probability of 0.3 at each call."""
        state = self.state
        if state.status is JobStatus.FINISHED or self.random.random() > 0.3:
            return
        if not state.deployment:
            if not self.awake(Planner):
                self.add(self.planner())
            return
        if not self.awake(MasterProcess):
            self.add(self.master())
        if len(self.awake(StandbyProcess)) < self.standbys:
            self.add(self.standby())
        workers = [worker for worker in self.awake(WorkerProcess) if not isinstance(worker, StandbyProcess)]
        missing = [group for group in self.groups if self._misses(group, workers)]
        if self.room is not None:
            missing = missing[: max(0, self.room - len(workers))]
        for group in missing:
            self.add(self.worker(group))

    def _misses(self, group: tuple[SubtaskId, ...], workers: Sequence[SimulatedProcess]) -> bool:
        is_done = self.state.finished.issuperset(self.state.with_colocated(group))
        if is_done or not (self.replaces or group not in self._tries):
            return False
        return not any(isinstance(worker, WorkerProcess) and worker.subtasks == group for worker in workers)

    # -- faults

    def _fault(self) -> None:
        alive = [process for process in self.processes if not process.is_over]
        if not alive:
            return
        victim = self.random.choice(alive)
        match self.random.randrange(12):
            case 0 | 1 | 2 | 3:
                victim.kill()
            case 4 | 5 | 6:
                victim.wakes_at = self.clock.now + self.random.choice((1.0, 8.0, 30.0))
            case 7 | 8 if self.state.deployment:
                self.add(self.master())
            case 9 if self.state.deployment:
                self.add(self.worker(self.random.choice(self.groups)))
            case 10 if isinstance(victim, WorkerProcess) and victim._begun:
                victim.worker.leave()
            case 11 if self.random.random() < 0.2:
                self._ask_or_plan()

    def _ask_or_plan(self) -> None:
        if self.random.random() < 0.4:
            self.add(self.planner())
        elif self.state.deployment:
            write_request(self.world.live, JOB, StopRequest(epoch=self.state.epoch))

    def rescale(self, uid: str, parallelism: int) -> str | None:
        return request_rescale(self.world.live, self.state, uid, parallelism)

    def claims(self) -> list[EpochClaimed]:
        """Return the claims in the journal, in order."""
        self.world.look()
        return [event for _, event in self.world.journal if isinstance(event, EpochClaimed)]

    # -- the end

    def finish(self, limit: int = 20_000) -> None:
        """Stop injecting faults, and run until the job is FINISHED and every process has ended."""
        self.faults = 0.0
        for process in self.processes:
            process.wakes_at = 0.0
        self.run(lambda: self._watched.refresh().status is JobStatus.FINISHED, limit)
        self.run(lambda: not self.processes, limit)
        self.left = self.world.partitions()
        clean_up(
            self.world.live, JOB, self.state.graph(), {}
        )  # the next start does the same, because an overtaken process may have written late files
        if self.world.partitions():
            raise AssertionError(f"seed {self.seed}: partitions outlive their job: {self.world.partitions()}")
        self.world.check_the_end()


def groups_of(graph: JobGraph, random: Random) -> Iterable[tuple[SubtaskId, ...]]:
    """Yield groups of one to three subtasks, in random order."""
    left = list(graph.subtasks)
    random.shuffle(left)
    while left:
        count = random.randint(1, 3)
        yield tuple(left[:count])
        del left[:count]
