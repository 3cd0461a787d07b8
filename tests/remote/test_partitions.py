"""What becomes of result partitions while the processes of a job come and go, and when it ends: they lie in the storage
and are nobody's but the job's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_provider_ckpt.jobmaster import retention
from airflow_provider_ckpt.journal.requests import write_request
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.records import Open
from tests.remote.cluster import Cluster
from tests.remote.jobs import endless
from tests.remote.master_process import MasterProcess
from tests.remote.worker_process import WorkerProcess
from tests.simulation.world import JOB

LIVE = SubtaskId("live/0")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A job that runs, and of which each producer has published something."""
    made = endless()
    made.run(lambda: made.state.status is JobStatus.RUNNING)
    made.run(lambda: {"live/0", "live/1"} <= made.world.partitions().keys())
    yield made
    made.world.delete()


def attempts(cluster: Cluster) -> int:
    return sum(isinstance(record, Open) for record in cluster.world.logs[LIVE])


def worker(cluster: Cluster) -> WorkerProcess:
    (found,) = [one for one in cluster.processes if isinstance(one, WorkerProcess) and one.subtasks == (LIVE,)]
    return found


def loses_its_jobmaster(cluster: Cluster) -> Callable[[], bool]:
    before = cluster.state.epoch
    cluster.awake(MasterProcess)[0].kill()
    return lambda: cluster._watched.refresh().epoch > before


def loses_a_worker(cluster: Cluster) -> Callable[[], bool]:
    before = attempts(cluster)
    worker(cluster).kill()
    return lambda: attempts(cluster) > before


def has_a_worker_leave(cluster: Cluster) -> Callable[[], bool]:
    before = attempts(cluster)
    worker(cluster).worker.leave()
    return lambda: attempts(cluster) > before


def is_stopped(cluster: Cluster) -> Callable[[], bool]:
    write_request(cluster.world.live, JOB, "stop", cluster.state.epoch)
    return lambda: cluster._watched.refresh().status is JobStatus.STOPPED


@pytest.mark.parametrize("happens", [loses_its_jobmaster, loses_a_worker, has_a_worker_leave, is_stopped])
def test_what_is_published_stays_until_the_job_has_finished(
    cluster: Cluster, happens: Callable[[Cluster], Callable[[], bool]]
) -> None:
    there = {subtask: set(files) for subtask, files in cluster.world.partitions().items()}
    cluster.run(happens(cluster))
    now = cluster.world.partitions()
    assert all(files <= set(now.get(subtask, ())) for subtask, files in there.items())
    cluster.run(lambda: cluster._watched.refresh().status is JobStatus.RUNNING)
    write_request(cluster.world.live, JOB, "drain", cluster.state.epoch)
    cluster.finish()
    assert cluster.left == {}


def test_r7_what_all_have_read_is_given_back_while_the_job_runs_and_what_they_have_not_is_not(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each checkpoint. Who has not read a file that is gone never gets on, and the job comes to no end."""
    monkeypatch.setattr(retention, "TRUNCATE_AT", 1)
    first = {subtask: set(files) for subtask, files in cluster.world.partitions().items()}
    cluster.run(
        lambda: not any(first[one] & set(files) for one, files in cluster.world.partitions().items() if one in first),
        4000,
    )
    write_request(cluster.world.live, JOB, "drain", cluster.state.epoch)
    cluster.finish()
