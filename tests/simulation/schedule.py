"""A whole simulated life of a job from one seed: a random graph and schedule, faults, then no faults."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import replace
from random import Random

from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.protocol.checkpoint_options import CheckpointOptions
from airflow_provider_ckpt.coordinator.protocol.messages import (
    Message,
)
from airflow_provider_ckpt.coordinator.state.subtask_table import SubtaskStatus
from airflow_provider_ckpt.model.graph import Exchange, JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import DrainRequest, ReconfigureRequest, StopRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from tests.simulation.driver import Driver
from tests.simulation.restless import Restless
from tests.simulation.runner import StreamingRunner
from tests.simulation.world import BrokenError, World

_NUMBERS = itertools.count()
FAULTY_STEPS = 250
STEPS_TO_FINISH = 3000
STEPS_TO_FINISH_A_SUBTASK = 600
"""Additional steps for each subtask, because each step advances a single subtask.

Of 4,000 runs the longest took 7,700 steps with 14 subtasks, and few took 3,000.
"""
STEPS_WITH_REPLACEMENTS = 150


def random_graph(random: Random) -> JobGraph:
    """Return a graph of 1-5 vertices, parallelism 1-3, bounded and unbounded sources, and edges of both kinds."""
    vertices: list[JobVertex] = []
    edges: list[JobEdge] = []
    count = random.randint(1, 5)
    for number in range(count):
        uid = f"v{number}"
        producers = random.sample(range(number), random.randint(0, min(2, number)))
        for producer in producers:
            for copy in range(2 if random.random() < 0.1 else 1):
                exchange: Exchange = random.choice(("pointwise", "all_to_all"))
                edges.append(JobEdge(f"e{producer}_{number}_{copy}", f"v{producer}", uid, uid, exchange))
        bounded = [f"b{number}"] if random.random() < 0.6 else []
        live = [f"l{number}"] if random.random() < 0.3 else []
        if not producers and not bounded and not live:
            bounded = [f"b{number}"]
        whole = not live and all(vertices[producer].bounded for producer in producers)
        last = number == count - 1
        sinks = [f"s{number}_{i}" for i in range(random.choice((0, 1, 2)))] or ([f"s{number}_0"] if last else [])
        vertices.append(
            JobVertex(
                uid,
                (*bounded, *live, uid),
                (*bounded, *live),
                tuple(bounded),
                tuple(sinks),
                whole,
                random.choice((1, 1, 2, 3)),
            )
        )
    return JobGraph(tuple(vertices), tuple(edges))


def by_split(graph: JobGraph, random: Random) -> JobGraph:
    """Turn some vertices that only have bounded sources into sources with splits, of up to four subtasks."""
    vertices = [
        JobVertex(v.uid, (v.uid,), (v.uid,), (v.uid,), v.sinks, True, random.randint(1, 4), splits=True)
        if v.bounded and not graph.inputs(v.uid) and random.random() < 0.8
        else v
        for v in graph.vertices
    ]
    return JobGraph(tuple(vertices), graph.edges)


def with_open_source(graph: JobGraph, random: Random) -> JobGraph:
    """Make the first vertex a source with splits.

    Most readers of such sources read all_to_all, else they prevent rescales.
    """
    first = graph.vertices[0]
    width = random.randint(1, 4)
    vertices = [JobVertex(first.uid, (first.uid,), (first.uid,), (first.uid,), first.sinks, True, width, splits=True)]
    for vertex in graph.vertices[1:]:
        upstream = [v for v in vertices for edge in graph.inputs(vertex.uid) if edge.producer == v.uid]
        whole = set(vertex.sources) == set(vertex.bounded_sources) and all(v.bounded for v in upstream)
        vertices.append(replace(vertex, bounded=whole))
    by = {vertex.uid for vertex in vertices if vertex.splits}
    edges = [
        replace(edge, exchange="all_to_all") if edge.producer in by and random.random() < 0.9 else edge
        for edge in graph.edges
    ]
    return JobGraph(tuple(vertices), tuple(edges))


def with_live_sources(graph: JobGraph, random: Random) -> JobGraph:
    """Give most vertices a live source, because a query that ends soon is rarely changed while it runs."""
    vertices: list[JobVertex] = []
    for vertex in graph.vertices:
        live = f"l{vertex.uid[1:]}"
        if live not in vertex.sources and not vertex.splits and random.random() < 0.7:
            vertex = replace(vertex, operators=(*vertex.sources, live, vertex.uid), sources=(*vertex.sources, live))
        upstream = [v for v in vertices for edge in graph.inputs(vertex.uid) if edge.producer == v.uid]
        whole = set(vertex.sources) == set(vertex.bounded_sources) and all(v.bounded for v in upstream)
        vertices.append(replace(vertex, bounded=whole))
    return JobGraph(tuple(vertices), graph.edges)


class Simulation:
    """A simulated job. ``rescales``: users request other parallelisms of sources with splits, again and again.

    ``reconfigures``: users request other settings of some queries. ``controls``: a controller of the job does.
    """

    def __init__(
        self,
        seed: int,
        coordinator: type[Coordinator] = Coordinator,
        runner: type[StreamingRunner] = StreamingRunner,
        *,
        splits: bool = False,
        rescales: bool = False,
        reconfigures: bool = False,
        controls: bool = False,
    ) -> None:
        self.random = Random(seed)
        graph = random_graph(self.random)
        if splits:
            graph = by_split(graph, self.random)
        if rescales:
            graph = with_open_source(graph, self.random)
        if reconfigures or controls:
            graph = with_live_sources(graph, self.random)
        self.rescales, self.reconfigures = rescales, reconfigures
        self.deadly = 0.02 if rescales and reconfigures else 0.15
        """Probability that a driver dies during a request.

        It is low for jobs with many requests; few of them would finish otherwise.
        """
        rows = {
            (f"{v.uid}/{i}", uid): self.random.randint(0, 12)
            for v in graph.vertices
            for i in range(v.parallelism)
            for uid in v.bounded_sources
            if not v.splits
        }
        aligned = self.random.random() < 0.3
        most = (80 if reconfigures else 40) if rescales else 15
        lists = {
            v.uid: {f"s{number}": self.random.randint(0, 3) for number in range(self.random.randint(1, most))}
            for v in graph.vertices
            if v.splits
        }
        self.world = World(graph, rows, name=f"{os.getpid()}-{next(_NUMBERS)}", aligned=aligned, splits=lists)
        gates = Random(seed)  # a separate generator: the other choices of a seed stay the same
        self.world.held = frozenset(sink for sink in self.world.targets if gates.random() < 0.15)
        batch = all(v.bounded for v in graph.vertices) and self.random.random() < 0.3
        self.options = CheckpointOptions(
            interval=self.random.choice((1.0, 5.0, 1000.0)),
            min_pause=self.random.choice((0.0, 2.0)),
            timeout=20.0,
            tolerable_failed=self.random.choice((0, 2, 50)),
            restart_attempts=self.random.choice((0, 3, 1000)),
            mode="batch" if batch else "streaming",
        )
        self.coordinator_type, self.runner_type = coordinator, runner
        self.controls = controls
        self.requests = itertools.count()
        self.driver = self._new_driver()
        self.zombies: list[Driver] = []
        self.ends: list[str] = []

    def run(self) -> None:
        """Run the schedule.

        Raises BrokenError (or CutViolatedError through FAILED) as soon as an invariant does not hold.
        """
        for _ in range(2 * FAULTY_STEPS if self.reconfigures or self.controls else FAULTY_STEPS):
            if "FINISHED" in self.ends:
                break
            self._step_with_faults()
        self._finish_without_faults()
        self.world.check_all_rows()
        self.world.delete()

    def _new_driver(self) -> Driver:
        controllers = [Restless(self.random)] if self.controls else []
        return Driver(self.world, self.random, self.options, self.coordinator_type, self.runner_type, controllers)

    def _step_with_faults(self) -> None:
        self.world.now += self.random.choice((0.0, 0.01, 0.3, 1.5))
        zombie = self.random.choice(self.zombies) if self.zombies and self.random.random() < 0.3 else None
        self._step(zombie or self.driver)
        dice = self.random.random()
        if dice < 0.01:
            self._take_over(keep_alive=self.random.random() < 0.6)
        elif dice < 0.015:
            self.driver.crash_in_effects = True
        elif dice < 0.02 and self.driver.coordinator is not None:
            mode = self.random.choice(("stop", "stop", "drain"))
            leaves = self.random.random() < 0.3
            name = f"r{self.world.now}"
            self._request(DrainRequest(name=name) if mode == "drain" else StopRequest(leaves, name=name))
        elif dice < 0.03:
            self._misdeliver()
        elif self.rescales and dice < 0.06 and self.driver.coordinator is not None:
            self._request_rescale()
        elif self.reconfigures and 0.06 < dice < self._request_bound() and self.driver.coordinator is not None:
            self._request_reconfiguration()

    def _step(self, driver: Driver) -> None:
        driver.step()
        self.world.check()
        if driver.dead and driver in self.zombies:
            self.zombies.remove(driver)
        if self.driver.dead:
            self.ends.append(self.driver.over or "died")
            if self.driver.over != "FINISHED":
                self.driver = self._new_driver()

    def _take_over(self, keep_alive: bool) -> None:
        if keep_alive:
            self.zombies.append(self.driver)
        self.driver = self._new_driver()

    def _request_bound(self) -> float:
        """Return the upper bound of the random number for requests.

        With both kinds, more requests fall into the short RUNNING times.
        """
        coordinator = self.driver.coordinator
        runs = coordinator is not None and coordinator.status is JobStatus.RUNNING
        return 0.4 if self.rescales and runs else 0.12

    def _request_rescale(self) -> None:
        """Request a rescale. Some requests are impossible and must be refused. The driver may die during the change."""
        uid = self.random.choice([*self.world.splits, self.random.choice(self.world.graph.vertices).uid])
        change = VertexSettings(parallelism=self.random.randint(0, 6))
        self._request(ReconfigureRequest({uid: change}, name=f"w{next(self.requests)}"))
        if self.random.random() < self.deadly:
            self.driver.crash_in_effects = True

    def _request_reconfiguration(self) -> None:
        """Request other settings of some operators, or of an unknown one. Some changes need another attempt."""
        assert self.driver.coordinator is not None
        statuses = self.driver.coordinator.subtask_statuses()
        running = [vertex for vertex in self.world.graph.vertices if self._all_run(vertex, statuses)]
        likely = running if self.random.random() < 0.9 else self.world.graph.vertices
        names = [self.random.choice(vertex.operators) for vertex in likely]
        names += ["unknown"] if not names or self.random.random() < 0.1 else []
        chosen = self.random.sample(names, min(len(names), self.random.choice((1, 1, 2, 3))))
        if self.rescales and self.random.random() < 0.5:
            chosen = list(dict.fromkeys([*chosen, self.random.choice(list(self.world.splits))]))
        by_split = {uid for vertex in self.world.graph.vertices if vertex.splits for uid in vertex.operators}
        changes = {uid: self._width() if uid in by_split else self._settings() for uid in chosen}
        self._request(ReconfigureRequest(changes, name=f"c{next(self.requests)}"))
        if self.random.random() < self.deadly:
            self.driver.crash_in_effects = True

    @staticmethod
    def _all_run(vertex: JobVertex, statuses: Mapping[SubtaskId, SubtaskStatus]) -> bool:
        return all(statuses.get(subtask) is SubtaskStatus.RUNNING for subtask in vertex.subtasks)

    def _width(self) -> VertexSettings:
        return VertexSettings(parallelism=self.random.randint(1, 6))

    def _settings(self) -> VertexSettings:
        if self.random.random() < 0.3:
            return VertexSettings(state_partitions=self.random.randint(1, 3))
        return VertexSettings(pool_weight=self.random.randint(1, 3))

    def _request(self, request: Message) -> None:
        self.driver.inbox.append(request)

    def _misdeliver(self) -> None:
        """Deliver reports of an older driver's subtasks to the newest coordinator (R22)."""
        for zombie in self.zombies:
            for runner in (*zombie.runners.values(), *zombie.replaced):
                if runner.outbox and self.driver.coordinator is not None:
                    self.driver.inbox.append(runner.outbox[0])

    def _finish_without_faults(self) -> None:
        self.zombies.clear()
        steps = STEPS_TO_FINISH + STEPS_TO_FINISH_A_SUBTASK * len(self.world.subtasks)
        if self.reconfigures or self.controls:
            steps *= 2  # more of these jobs run until they are drained
        for step in range(steps):
            if "FINISHED" in self.ends:
                return
            self.driver.faulty = self.driver.crash_in_effects = False
            self.driver.replaces = step < STEPS_WITH_REPLACEMENTS  # the drain has begun by then
            # request the drain again if a pending stop has failed; during a stop it is refused
            if step % 50 == 0 and self.driver.coordinator is not None and not self.driver.coordinator.draining:
                self._request(DrainRequest(name=f"last {step}"))
            # each step advances one subtask: with 16 of them no aligned checkpoint would end within its timeout
            self.world.now += min(0.05, 0.2 / len(self.world.subtasks))
            self._step(self.driver)
        raise BrokenError(f"no end after {steps} steps without faults: {self._describe()}")

    def _describe(self) -> str:
        coordinator = self.driver.coordinator
        if coordinator is None:
            return "starting"
        pending = coordinator.pending
        waiting = None if pending is None else (pending.checkpoint, pending.remaining)
        statuses = {name: status.value for name, status in coordinator.subtask_statuses().items()}
        return f"pending {waiting}, {statuses}, dropped {coordinator.dropped_messages}"
