"""Fences: planners, JobMasters and workers that start at the wrong moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest

from airflow_provider_ckpt.coordinator.protocol import reports as rp
from airflow_provider_ckpt.journal.events import SplitsAssigned
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_request import StopRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.remote.errors import DeploymentOverError, NotPlannedError, SubtaskTakenError
from airflow_provider_ckpt.remote.worker import WorkerEnd
from airflow_provider_ckpt.remote.worker_part import WorkerPart, check_owned
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.remote.cluster import Cluster
from tests.remote.jobs import one_worker
from tests.remote.master_process import MasterProcess
from tests.remote.process import SimulatedProcess
from tests.remote.worker_process import WorkerProcess
from tests.simulation.runner import Runner
from tests.simulation.split_runner import SplitRunner
from tests.simulation.world import JOB


@pytest.fixture
def make() -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def cluster(**options: int) -> Cluster:
        made.append(one_worker(**options))  # type: ignore[arg-type]
        return made[-1]

    yield cluster
    for started in made:
        started.world.delete()


def planned(cluster: Cluster) -> Cluster:
    cluster.planner().run()
    cluster._watched.refresh()
    return cluster


def live(cluster: Cluster) -> tuple[SimulatedProcess, list[SimulatedProcess]]:
    """Add a JobMaster and one worker for each group."""
    return cluster.add(cluster.master()), [cluster.add(cluster.worker(group)) for group in cluster.groups]


def test_w19_jobmaster_and_workers_wait_until_the_job_is_prepared(make: Callable[..., Cluster]) -> None:
    """A planner that dies half-way must be followed by another planner."""
    cluster = make()
    planner = cluster.planner()
    planner.run()
    writes = planner.verbs
    cluster = make()
    planner = cluster.planner()
    planner.crashes_at = (writes, "before")  # the last verb writes that the job is prepared
    planner.run()
    master = cluster.master()
    master.run()
    assert isinstance(master.error, NotPlannedError)
    worker = cluster.worker(cluster.groups[0])
    worker.run()
    assert not worker._begun


def test_w20_a_jobmaster_does_not_claim_a_job_that_was_planned_again(make: Callable[..., Cluster]) -> None:
    cluster = planned(make())
    master = cluster.master()
    reads = iter(range(10_000))

    def at_verb(process: SimulatedProcess, when: str, verb: str, path: str) -> None:
        if process is master and "/journal" in path and next(reads) == 2:
            cluster.planner().run()

    cluster.at_verb = at_verb  # type: ignore[method-assign]
    master.run()
    assert isinstance(master.error, NotPlannedError)
    assert [event.deployment for event in cluster.claims()] == [0, 0]


def test_w20_a_worker_of_an_old_plan_opens_no_log_of_the_new_plan(make: Callable[..., Cluster]) -> None:
    """The worker has read the plan, and then waits for Spark to start."""
    cluster = planned(make())
    worker = cluster.worker(cluster.groups[0])
    state = worker._journal.refresh()
    cluster.planner().run()
    with pytest.raises(DeploymentOverError, match="attempt 0002"):
        WorkerPart.of(worker.storage, state, worker.subtasks)


def test_a_worker_leaves_when_another_takes_its_subtasks(make: Callable[..., Cluster]) -> None:
    """The later worker fences the first one."""
    cluster = planned(make())
    _, (first,) = live(cluster)
    cluster.run(lambda: len(cluster.claims()) == 2 and cluster.state.status is JobStatus.RUNNING)
    second = cluster.add(cluster.worker(cluster.groups[0]))
    cluster.run(lambda: first.is_over)
    assert isinstance(first.error, SubtaskTakenError), "the deployment goes on, and nobody is told that it is over"
    cluster.finish()
    assert isinstance(second, WorkerProcess)
    assert second.end in (WorkerEnd.DONE, WorkerEnd.JOB_OVER)


def test_w14_an_earlier_try_that_resumes_takes_nothing_from_a_later_one(make: Callable[..., Cluster]) -> None:
    """The earlier worker slept while Spark started and opened no log. A later try runs now."""
    cluster = planned(make())
    cluster.counts_tries, cluster.supervises = True, False
    cluster.add(cluster.master())
    for group in cluster.groups[1:]:
        cluster.add(cluster.worker(group))
    late, later = (cluster.worker(cluster.groups[0]) for _ in range(2))
    late._start()  # it has read the owners of its subtasks
    cluster.add(later)
    cluster.run(lambda: cluster._watched.refresh().status is JobStatus.RUNNING)
    attempts = {task.attempt for task in later.tasks}
    cluster.add(late)
    cluster.run(lambda: late.is_over)
    assert isinstance(late.error, SubtaskTakenError)
    assert "was opened by a later try" in str(late.error)
    assert late.tasks == []
    cluster.finish()
    assert {task.attempt for task in later.tasks} == attempts, "nobody has noticed"
    assert later.end is WorkerEnd.DONE


def test_an_attempt_that_fails_before_its_predecessor_is_lost_restarts(
    make: Callable[..., Cluster],
) -> None:
    """A worker is killed. The first try of the next worker, which starts at once, fails."""
    cluster = planned(make())
    _, (first,) = live(cluster)
    cluster.run(lambda: cluster._watched.refresh().status is JobStatus.RUNNING)
    first.kill()
    failures = iter(["after an attempt has opened its log"])

    def may_fail(process: SimulatedProcess, moment: str) -> None:
        if process is not first and moment == next(failures, None):
            raise OSError("on purpose")

    cluster.may_fail = may_fail  # type: ignore[method-assign]
    failures = iter(["before an attempt has opened its log"])
    cluster.add(cluster.worker(cluster.groups[0]))
    cluster.finish()
    assert [event.epoch for event in cluster.claims()] == [1, 2]


@pytest.mark.parametrize("seed", range(3))
def test_a_worker_reports_its_end_to_a_jobmaster_that_read_too_early(make: Callable[..., Cluster], seed: int) -> None:
    """The previous JobMaster finished the subtasks and is gone. The workers stay until the journal has the end."""
    cluster = planned(make())
    cluster.random.seed(seed)
    master, workers = live(cluster)
    second: list[SimulatedProcess] = []

    def second_comes() -> bool:
        hosted = [subtask for worker in workers if isinstance(worker, WorkerProcess) and worker._begun
                  for subtask in worker.worker._slots._running.values()]  # fmt: skip
        if not second and isinstance(master, MasterProcess) and any("Finish" in f"{q}" for q in queued(master)):
            second.append(cluster.add(cluster.master()))
            second[0].run()  # it has claimed the epoch and read the logs
            master.wakes_at = cluster.clock.now + 1e6
        return bool(second) and all(subtask.is_done for subtask in hosted)

    cluster.run(second_comes)
    cluster.processes.remove(master)
    cluster.finish()
    assert [event.epoch for event in cluster.claims()] == [1, 2, 3]


def queued(master: MasterProcess) -> list[object]:
    if master.job is None:
        return []
    queues = master.job._gateway._mailbox._queues  # type: ignore[attr-defined]
    return [message for queue in queues.values() for message in queue]


def test_w13_splits_returned_under_one_jobmaster_are_returned_once(
    make: Callable[..., Cluster],
) -> None:
    """The first reader fails with some splits, another reader gets them, and then the JobMaster is killed."""
    cluster = planned(make(splits=12, workers=3))
    held: set[str] = set()

    def reads(runner: Runner) -> bool:
        waits = isinstance(runner, SplitRunner) and bool(runner.reading.next())
        return not waits or runner.subtask in held

    cluster.before_step = reads
    master, workers = live(cluster)
    victim = next(worker for worker in workers if isinstance(worker, WorkerProcess) and worker.subtasks == ("src/0",))
    others = [worker for worker in workers if worker is not victim]
    for worker in others:  # the first reader gets two splits; its next attempt gets one of them back first
        worker.wakes_at = math.inf
    cluster.run(lambda: bool(assigned(cluster)))
    for worker in others:
        worker.wakes_at = 0.0
    cluster.run(lambda: assigned(cluster) >= {SubtaskId("src/0"), SubtaskId("src/1"), SubtaskId("src/2")})
    victim.worker.post(rp.SubtaskFailed(1, victim.subtasks[0], victim.tasks[-1].attempt, "on purpose"))
    held.add("src/1")
    cluster.run(lambda: overlap(cluster))
    master.kill()
    held.update(("src/0", "src/2"))
    cluster.add(cluster.master())
    cluster.finish()


def events(cluster: Cluster) -> list[SplitsAssigned]:
    cluster.world.look()
    return [event for _, event in cluster.world.journal if isinstance(event, SplitsAssigned)]


def assigned(cluster: Cluster) -> set[SubtaskId]:
    return {event.subtask for event in events(cluster)}


def overlap(cluster: Cluster) -> bool:
    """Return whether a split was assigned to src/0 and later to src/1."""
    mine = {range_ for event in events(cluster) if event.subtask == "src/0" for range_ in places(event)}
    others = {range_ for event in events(cluster) if event.subtask == "src/1" for range_ in places(event)}
    return bool(mine & others)


def places(event: SplitsAssigned) -> set[int]:
    return {number for start, end in event.splits for number in range(start, end)}


def test_w20_the_next_jobmaster_takes_the_stop_of_a_dead_one(make: Callable[..., Cluster]) -> None:
    cluster = planned(make(rows=500))
    master, _ = live(cluster)
    cluster.run(lambda: cluster._watched.refresh().status is JobStatus.RUNNING)
    name = write_request(cluster.world.live, JOB, StopRequest(epoch=cluster.state.epoch)).name
    cluster.run(lambda: name in cluster._watched.refresh().answered or cluster.state.status is JobStatus.STOPPED)
    assert name in cluster.state.taken
    master.kill()
    cluster.add(cluster.master())
    cluster.run(lambda: cluster._watched.refresh().status is JobStatus.STOPPED)
    assert cluster.state.outcomes[name].is_carried_out


def test_w13_splits_stay_assigned_while_their_attempt_may_live(
    make: Callable[..., Cluster],
) -> None:
    """A worker is paused with splits while another JobMaster takes over. It reads them after it wakes up."""
    cluster = planned(make(splits=12, workers=3))
    may_read: set[str] = set()
    cluster.before_step = lambda runner: (
        not isinstance(runner, SplitRunner) or not runner.reading.next() or bool(may_read)
    )
    master, workers = live(cluster)
    cluster.run(lambda: assigned(cluster) >= {SubtaskId("src/0"), SubtaskId("src/1"), SubtaskId("src/2")})
    late = next(worker for worker in workers if isinstance(worker, WorkerProcess) and worker.subtasks == ("src/0",))
    cluster.run(lambda: any(task._runner.reading.next() for task in late.tasks))  # type: ignore[attr-defined]
    late.wakes_at = cluster.clock.now + 5.0
    master.kill()
    may_read.add("all")
    cluster.add(cluster.master())
    cluster.run(lambda: cluster.clock.now >= late.wakes_at)
    for _ in range(20):
        late.tasks[-1].take_step(lambda error: None)
    cluster.finish()


def test_w14_a_taken_log_is_noticed_without_a_write(make: Callable[..., Cluster]) -> None:
    world = make().world
    mine, others = (SubtaskLog(world.live, "log") for _ in range(2))
    mine.load()
    mine.open(AttemptId(1, 1, "mine"))
    check_owned({SubtaskId("v/0"): mine})
    others.load()
    others.open(AttemptId(1, 2, "others"))
    with pytest.raises(LogFencedError):
        check_owned({SubtaskId("v/0"): mine})
