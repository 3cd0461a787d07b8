"""Jobs whose queries are changed at random moments, in addition to the faults of their runs and queries."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.model.graph import JobVertex
from tests.random_jobs.definition import Definition
from tests.random_jobs.restarting import Restarting
from tests.random_jobs.schedule import RunPlan, Schedule
from tests.spark.faults import Fault
from tests.spark.harness import Line

CHANCE = 0.25
"""Probability of a change request at a status line."""
AT_MOST = 12
_VERSION = """
from pathlib import Path

from tests.random_jobs.build import build
from tests.random_jobs.definition import Definition

NUMBER = {number}
base = Path({base!r})
job = build(Definition.from_json((base / "definition.json").read_text()), base)
"""


class Changes:
    """Random change requests, none of which changes the output."""

    def __init__(self, rng: random.Random, base: Path) -> None:
        self._rng, self._base = rng, base

    def draw(self, vertices: tuple[JobVertex, ...], stateful: Collection[str]) -> Reconfiguration:
        change, anything = Reconfiguration(), [self._limit, self._logic, self._logic, self._weight, self._pace]
        for vertex in self._rng.sample(vertices, min(len(vertices), self._rng.choice([1, 1, 2]))):
            among = [*anything, *[self._parts] * 3] if vertex.uid in stateful else anything
            for add in self._rng.sample(among, self._rng.choice([1, 1, 2])):
                add(change, vertex)
        return change

    def _limit(self, change: Reconfiguration, vertex: JobVertex) -> None:
        if self._rng.random() < 0.5:
            change.assign_workload(vertex.uid, max_files_per_batch=self._rng.randint(1, 3))
        else:
            change.assign_workload(vertex.uid, max_bytes_per_batch=self._rng.choice([1, 3000, 1 << 20]))

    def _parts(self, change: Reconfiguration, vertex: JobVertex) -> None:
        change.assign_workload(vertex.uid, state_partitions=self._rng.randint(1, 4))

    def _weight(self, change: Reconfiguration, vertex: JobVertex) -> None:
        change.assign_resources(vertex.uid, pool_weight=self._rng.randint(1, 4))

    def _pace(self, change: Reconfiguration, vertex: JobVertex) -> None:
        change.assign_workload(vertex.uid, trigger_interval=self._rng.choice([0.0, 0.05, 0.2]))

    def _logic(self, change: Reconfiguration, vertex: JobVertex) -> None:
        """Assign a function: from another file, or the job's own again."""
        reference = None if self._rng.random() < 0.2 else f"{self._version()}:job"
        change.assign_execution_logic(self._rng.choice(vertex.operators), reference)

    def _version(self) -> Path:
        """Write one of three versions. A file is never rewritten, because a later run is refused then."""
        number = self._rng.randint(1, 3)
        path = self._base / f"version_{number}.py"
        path.write_text(_VERSION.format(number=number, base=str(self._base)))
        return path


class ReconfiguringJob(Restarting):
    """A job with changed queries.

    Raises AssertionError unless its output is the same as without changes.
    """

    def __init__(self, spark: SparkSession, definition: Definition, schedule: Schedule, base: Path) -> None:
        super().__init__(spark, definition, schedule, base)
        (base / "definition.json").write_text(definition.to_json())
        rng = random.Random(definition.seed * 37 + 11)
        self._when, self._changes = rng, Changes(rng, base)
        self.asked: list[str] = []
        self.outcomes: Counter[str] = Counter()

    def _hear(self, plan: RunPlan, fault: Fault) -> Callable[[Line], None]:
        hear = super()._hear(plan, fault)

        def heard(line: Line) -> None:
            hear(line)
            if len(self.asked) < AT_MOST and not self._asked and self._when.random() < CHANCE:
                self._ask()
            self._look()

        return heard

    def _ask(self) -> None:
        client = JobClient(str(self.world.root), self.world.job_id)
        state = client.read_state()
        vertices = tuple(vertex for vertex in state.graph().vertices if f"{vertex.uid}/0" not in state.finished)
        if state.status != "RUNNING" or not vertices:
            return
        try:
            definitions = {} if state.definition is None else state.definition.vertices
            stateful = {uid for uid, definition in definitions.items() if definition.stateful}
            self.asked.append(client.reconfigure(self._changes.draw(vertices, stateful)).name)
        except InvalidInputError as error:  # nothing is written
            self.outcomes[f"refused: {type(error).__name__}"] += 1

    def _look(self) -> None:
        """Count new outcomes, because the journal keeps them only for a while."""
        state = self.world.state() if self.asked else None
        for name in self.asked:
            outcome = None if state is None else state.outcomes.get(name)
            if outcome is not None and outcome.result.value != "accepted" and f"of {name}" not in self.outcomes:
                self.outcomes[f"of {name}"] = 0
                self.outcomes[outcome.result.value] += 1
                self.story.note(f"{outcome}"[:300])

    def summary(self) -> str:
        return ", ".join(f"{kind}: {count}" for kind, count in sorted(self.outcomes.items()) if count)
