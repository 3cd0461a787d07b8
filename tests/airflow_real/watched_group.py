"""Run of a Dag with one group: its job, and the processes that run the parts of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from tests.airflow_real.component import Component
from tests.airflow_real.server import Airflow
from tests.chaos.world import World
from tests.support.processes import command_name
from tests.support.subtask_log_history import SubtaskLogHistory
from tests.support.waiting import wait_until

_PATIENCE = 400.0
"""Six drivers start on two cores."""


A = TypeVar("A", bound=Airflow)


class WatchedGroup(Generic[A]):
    """Observer of a group's run. ``group``: its id.

    Subtasks are named ``history/0``, the other tasks ``coordinate``, for example.
    """

    def __init__(self, airflow: A, world: World, group: str, dag: str, run: str) -> None:
        self.airflow, self.world = airflow, world
        self.group, self.dag, self.run = group, dag, run
        self.logs = SubtaskLogHistory(world.root / world.job_id)

    # ---- Airflow's answers

    def states(self) -> dict[str, str]:
        return {name: state for name, (state, _) in self._tasks().items()}

    def tries(self) -> dict[str, int]:
        return {name: number for name, (_, number) in self._tasks().items()}

    def _tasks(self) -> dict[str, tuple[str, int]]:
        states = {}
        for task in self.airflow.tasks(self.dag, self.run):
            name = task["rendered_map_index"] or task["task_id"].removeprefix(f"{self.group}.")
            states[name] = (str(task["state"]), int(task["try_number"]))
        return states

    def links(self, subtask: str) -> dict[str, str]:
        """Return the buttons of a subtask's task: name → link."""
        (index,) = [
            task["map_index"]
            for task in self.airflow.tasks(self.dag, self.run)
            if task["rendered_map_index"] == subtask
        ]
        path = f"/api/v2/dags/{self.dag}/dagRuns/{self.run}/taskInstances/{self.group}.subtask/links?map_index={index}"
        links: dict[str, str] = self.airflow.get(path)["extra_links"]
        return links

    def logs_text(self) -> str:
        tasks = ("plan", "subtask", "coordinate")
        logs = "\n".join(self.airflow.task_log(self.dag, f"{self.group}.{name}")[-5000:] for name in tasks)
        return f"{self._tasks()}\n{logs}"

    # ---- processes

    def driver(self, subtask: str) -> int:
        """Return the Python process of the subtask's worker."""

        def runs_subtask(pid: int) -> bool:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return b"--worker" in words and subtask.encode() in words and (command_name(pid) or "").startswith("python")

        (driver,) = [pid for pid in self.airflow.processes() if runs_subtask(pid)]
        return driver

    def jobmaster(self) -> int:
        """Return the process that holds the JobMaster, a task or a triggerer."""
        pid = self.world.state().worker.pid
        assert pid is not None
        return pid

    def triggerer_with_jobmaster(self) -> Component | None:
        """Return the triggerer that runs the JobMaster, or None."""
        pid = self.jobmaster()
        return next((triggerer for triggerer in self.airflow.triggerers if triggerer.runs(pid)), None)

    # ---- events

    def wait_for_release(self, why: str, *, epoch: int = 0) -> None:
        """Wait until a checkpoint triggered from now on is released, by a JobMaster later than ``epoch``."""

        def is_later() -> bool:
            return (self.world.root / self.world.job_id / "journal").exists() and self.world.state().epoch > epoch

        self._wait(is_later, f"a JobMaster: {why}")
        so_far = self.world.state().last_triggered
        self._wait(lambda: self.world.state().last_released > so_far, f"a release: {why}")

    def wait_for_attempt(self, subtask: str, after: int) -> None:
        self._wait(lambda: len(self.logs.attempts(subtask)) > after, f"attempt {after + 1} of {subtask}")

    def wait_for_next_tries(self, before: dict[str, int]) -> None:
        """Wait until each task runs in a later try than ``before``, or has succeeded."""

        def run() -> bool:
            now = self._tasks()
            again = {name for name, number in before.items() if now[name][0] == "running" and now[name][1] > number}
            return all(name in again or now[name][0] == "success" for name in before)

        self._wait(run, f"the next tries of {before}")

    def wait_without_failure(self, look: Callable[[], bool], description: str) -> None:
        """Wait until ``look`` is true. Fail at once if a task of the group has failed permanently."""

        def is_met() -> bool:
            failed = {"failed", "upstream_failed"} & set(self.states().values())
            assert not failed, f"{description}\n{self.logs_text()}"
            return look()

        wait_until(is_met, lambda: f"{description}\n{self.logs_text()}", seconds=600, every=0.5)

    def _wait(self, look: Callable[[], bool], description: str) -> None:
        wait_until(look, lambda: f"{description}\n{self.logs_text()}", seconds=_PATIENCE, every=0.5)
