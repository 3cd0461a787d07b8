"""Two standby workers that find the same subtasks abandoned at the same time.

Whatever the order of their steps, one of them runs the subtasks and the other one stands by again.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_request import DrainRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.records import Open
from tests.remote.jobs import endless
from tests.remote.process import SimulatedProcess
from tests.remote.standby_process import StandbyProcess
from tests.simulation.world import JOB

pytestmark = pytest.mark.slow

LOG = SubtaskId("b/0")


class Does(Random):
    """A random generator that fixes a worker's choices. ``at``: which of several logs the worker opens next."""

    chance, at = 0.0, 0

    def random(self) -> float:
        return self.chance

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return min(self.at, start - 1)


class Spares:
    """A job whose only worker was killed.

    The two standby workers ``both`` have seen that no worker runs its three subtasks. They have not acted on it.
    """

    def __init__(self) -> None:
        cluster = self.cluster = endless()
        cluster.supervises, cluster.counts_tries = False, False
        cluster.planner().run()
        cluster.add(cluster.master())
        worker = cluster.add(cluster.worker(cluster.graph.subtasks))
        cluster.run(lambda: self.state.status is JobStatus.RUNNING and self.state.last_released > 0)
        worker.kill()
        cluster.run(lambda: len(cluster.processes) == 1)
        self.both = cluster.standby(), cluster.standby()
        for _ in range(200):
            cluster.clock.now += 0.1
            for spare in self.both:
                if not spare.subtasks:
                    spare.run()
        assert [spare.subtasks for spare in self.both] == [cluster.graph.subtasks] * 2

    @property
    def state(self) -> JobState:
        return self.cluster._watched.refresh()

    @staticmethod
    def open_log(spare: StandbyProcess, at: int = 0) -> bool:
        """Open the worker's log number ``at``. Return whether there was one to open."""
        if not spare._begun:
            spare.run()
        if not spare.subtasks or not spare.restarts.waiting:
            return False
        spare.random = Does()
        spare.random.at = at
        spare.run()
        return True

    def read_reports(self, spare: StandbyProcess) -> None:
        """Let the worker read its reports and check whether it still owns its logs."""
        if spare._begun:
            spare.random = Does()
            spare.random.chance = 1.0
            self.cluster.clock.now += 2.0
            spare.run()

    def open_all(self, spare: StandbyProcess) -> None:
        """Let the worker open logs until it has all of them or none of the subtasks."""
        for _ in range(10):
            while self.open_log(spare):
                pass
            if spare in self.at_work() or not spare.subtasks:
                return
            self.read_reports(spare)

    def at_work(self) -> list[StandbyProcess]:
        """Return the workers that have opened all their logs and still believe that they own them."""
        return [spare for spare in self.both if spare.subtasks and spare.logs.keys() == set(spare.subtasks)]

    def is_standing_by(self, spare: StandbyProcess) -> bool:
        return not spare.is_over and not spare.subtasks

    def attempts(self) -> list[AttemptId]:
        self.cluster.world.look()
        return [record.attempt for record in self.cluster.world.logs[LOG] if isinstance(record, Open)]

    def settle(self) -> StandbyProcess:
        """Run both workers until one of them stands by again. Return the other one, which runs the subtasks."""
        for _ in range(20):
            for spare in self.both:
                self.open_all(spare)
                self.read_reports(spare)
        (winner,) = self.at_work()
        (loser,) = (spare for spare in self.both if spare is not winner)
        assert self.is_standing_by(loser)
        return winner

    def finish(self, winner: StandbyProcess) -> None:
        """Kill the winner and check that the other worker takes over. Each row arrives once."""
        cluster = self.cluster
        for spare in self.both:
            spare.random = Random(1)
            cluster.add(spare)
        released = self.state.last_released
        cluster.run(lambda: self.state.last_released > released)
        winner.kill()
        (other,) = (spare for spare in self.both if spare is not winner)
        cluster.run(lambda: other.subtasks == cluster.graph.subtasks)
        released = self.state.last_released
        cluster.run(lambda: self.state.last_released > released)
        write_request(cluster.world.live, JOB, DrainRequest(epoch=self.state.epoch))
        cluster.finish()


@pytest.fixture
def spares() -> Iterator[Spares]:
    made = Spares()
    yield made
    made.cluster.world.delete()


def ordered(spares: Spares, *, is_swapped: bool) -> tuple[StandbyProcess, StandbyProcess]:
    first, other = spares.both
    return (other, first) if is_swapped else (first, other)


both_orders = pytest.mark.parametrize("is_swapped", [False, True], ids=["one first", "the other first"])


@both_orders
def test_w14_the_worker_that_opens_the_logs_first_runs_the_subtasks(spares: Spares, is_swapped: bool) -> None:
    """The second worker has read the same last attempts, but opens its logs later: it opens none."""
    first, second = ordered(spares, is_swapped=is_swapped)
    first.run()
    second.run()
    before = spares.attempts()
    spares.open_all(first)
    spares.open_all(second)
    assert second.tasks == []
    assert spares.settle() is first
    assert len(spares.attempts()) == len(before) + 1
    spares.finish(first)


@both_orders
def test_w14_a_worker_overtaken_while_it_opens_a_log_opens_none(spares: Spares, is_swapped: bool) -> None:
    """The second worker has read the log and is about to write to it."""
    first, second = ordered(spares, is_swapped=is_swapped)
    first.run()
    second.run()
    opened: list[str] = []

    def at_verb(process: SimulatedProcess, when: str, verb: str, path: str) -> None:
        if process is second and (when, verb) == ("before", "create") and "/log/" in path and not opened:
            opened.append(path)
            spares.open_all(first)

    spares.cluster.at_verb = at_verb  # type: ignore[method-assign]
    spares.open_log(second)
    assert opened
    assert second.tasks == []
    assert spares.settle() is first
    spares.finish(first)


@both_orders
def test_w14_a_worker_that_reads_opened_logs_takes_them_over(spares: Spares, is_swapped: bool) -> None:
    """The second worker found the subtasks abandoned, and was then paused.

    The first one, which runs them now, loses its logs. It writes nothing more and stands by again.
    """
    first, second = ordered(spares, is_swapped=is_swapped)
    cluster, released = spares.cluster, spares.state.last_released
    cluster.add(first)
    cluster.run(lambda: spares.state.last_released > released)
    cluster.processes.remove(first)
    spares.open_all(second)
    attempts = spares.attempts()
    refused: list[BaseException] = []
    written = {subtask: len(log) for subtask, log in cluster.world.logs.items()}
    for task in [task for task in first.tasks if task.can_run]:
        for _ in range(50):
            if task.can_run:
                task.take_step(refused.append)
    assert {type(error) for error in refused} <= {LogFencedError}
    for log in first.logs.values():
        with pytest.raises(LogFencedError):
            log.end_of_data("finish")
    cluster.world.look()
    assert {subtask: len(log) for subtask, log in cluster.world.logs.items()} == written
    assert spares.settle() is second
    assert spares.attempts() == attempts
    spares.finish(second)


@both_orders
def test_w14_one_of_two_workers_wins_if_each_opens_other_logs_first(spares: Spares, is_swapped: bool) -> None:
    """Both workers open logs in turn, in different orders. Each one opens a log that the other one still needs."""
    first, second = ordered(spares, is_swapped=is_swapped)
    for _ in range(20):
        for spare in (first, second):
            if not spare._begun:
                spare.run()
        for _ in spares.cluster.graph.subtasks:
            spares.open_log(first, 0)
            spares.open_log(second, 2)
        for spare in (first, second):
            spares.read_reports(spare)
        if spares.at_work():
            break
    (winner,) = spares.at_work()
    assert winner is spares.settle()
    spares.finish(winner)
