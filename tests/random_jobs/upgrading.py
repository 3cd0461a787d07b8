"""Jobs that are upgraded to other versions at random moments, in addition to changes of queries and all faults."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.job import Job
from tests.random_jobs.build import build
from tests.random_jobs.definition import Definition
from tests.random_jobs.reconfiguring import ReconfiguringJob
from tests.random_jobs.schedule import RunPlan
from tests.spark.faults import Fault, FaultySink
from tests.spark.harness import Line

UPGRADES = 0.6
"""Share of upgrades among the requests."""
_VERSION = """
from pathlib import Path

from tests.random_jobs.upgrading import built

NUMBER = {number}
job = built(Path({base!r}))
"""
_FAULTS: dict[Path, Fault] = {}
"""Job folder -> fault of its current run, which the sinks of its versions use, too."""


def built(base: Path) -> Job:
    """Build the job for the file of a version."""
    definition = Definition.from_json((base / "definition.json").read_text())
    return build(definition, base, functools.partial(FaultySink, fault=_FAULTS[base]))


class Upgrading(ReconfiguringJob):
    """A job with upgrades.

    Raises AssertionError unless its output is the same as without changes.
    """

    def _hear(self, plan: RunPlan, fault: Fault) -> Callable[[Line], None]:
        _FAULTS[self.world.base] = fault
        return super()._hear(plan, fault)

    def summary(self) -> str:
        upgraded = sum("the job runs as" in line for line in self.story.notes)
        return f"{super().summary()}; upgraded {upgraded} times"

    def _ask(self) -> None:
        client = JobClient(str(self.world.root), self.world.job_id)
        if client.read_state().status != "RUNNING" or client.changes_in_progress():
            return  # an upgrade is tried for seconds, and would block all other requests
        if self._when.random() >= UPGRADES:
            super()._ask()
            return
        path = self.world.base / f"upgrade_{self._when.randint(1, 2)}.py"
        path.write_text(_VERSION.format(number=self._when.randint(1, 3), base=str(self.world.base)))
        try:
            self.asked.append(client.upgrade(f"{path}:job").name)
        except InvalidInputError as error:  # nothing is written
            self.outcomes[f"refused: {type(error).__name__}"] += 1
