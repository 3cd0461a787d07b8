"""Airflow as it is deployed: each part in its own process, with a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.airflow_real.component import Component
from tests.airflow_real.server import Airflow
from tests.support.waiting import wait_until

TRIGGERER_IS_DEAD_AFTER = 20
_SETTINGS = {
    # a slot for each subtask, one for the task that coordinates them, and some for other Dags
    "CORE__PARALLELISM": "12",
    # the tasks of a group start at once, and each of them imports the Dag first
    "CORE__DAGBAG_IMPORT_TIMEOUT": "300",
    "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
    # The scheduler keeps Airflow's 30 s. A scheduler whose own heartbeat is late would orphan its own tasks.
    "TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": str(TRIGGERER_IS_DEAD_AFTER),
}


class Deployment(Airflow):
    """Deployed Airflow. ``database``: a URL for SQLAlchemy. The LocalExecutor's tasks are children of the scheduler."""

    def __init__(self, home: Path, env: Mapping[str, str], database: str, triggerers: int = 2) -> None:
        self._triggerers = [f"triggerer-{number}" for number in range(1, triggerers + 1)]
        super().__init__(home, env, {**_SETTINGS, "DATABASE__SQL_ALCHEMY_CONN": database})

    def _made_of(self) -> list[Component]:
        triggerers = {name: ["triggerer", "--skip-serve-logs"] for name in self._triggerers}
        commands = {
            "api-server": ["api-server"],
            "scheduler": ["scheduler", "--skip-serve-logs"],
            "dag-processor": ["dag-processor"],
            **triggerers,
        }
        return [Component(name, arguments, self.home, self.env) for name, arguments in commands.items()]

    def __enter__(self) -> Deployment:
        super().__enter__()
        try:
            self.wait_for_triggerers()
        except BaseException:
            self.__exit__()
            raise
        return self

    def component(self, name: str) -> Component:
        (component,) = [candidate for candidate in self.components if candidate.name == name]
        return component

    @property
    def scheduler(self) -> Component:
        return self.component("scheduler")

    @property
    def triggerers(self) -> list[Component]:
        return [self.component(name) for name in self._triggerers]

    def wait_for_triggerers(self) -> None:
        """Start all triggerers that have ended, or end meanwhile, and wait until each has a heartbeat."""
        before, revived = self.alive("TriggererJob"), set[str]()

        def beating() -> set[str]:
            """Return the triggerers with a new heartbeat.

            The last heartbeat of a killed triggerer stays fresh for a while.
            """
            revived.update(triggerer.name for triggerer in self.triggerers if triggerer.revive())
            triggerers = self.alive("TriggererJob")
            return {host for number, host in triggerers.items() if number not in before or host not in revived}

        wait_until(
            lambda: set(self._triggerers) <= beating(),
            lambda: f"{self._triggerers} alive: {self.alive('TriggererJob')}\n{self.tail()}",
            seconds=180,
            every=1,
        )

    def triggerer_of(self, dag: str, run: str, task: str) -> Component | None:
        """Return the triggerer that runs the trigger of a deferred task, or None."""
        trigger = self.task(dag, run, task)["trigger"]
        if trigger is None or trigger["triggerer_id"] is None:
            return None
        host = self.alive("TriggererJob").get(trigger["triggerer_id"])
        return None if host is None else self.component(host)
