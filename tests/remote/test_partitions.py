"""Result partitions while the processes of a job start and end, and when the job ends.

The partitions belong to the job, not to a process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_provider_ckpt.jobmaster.retention import retention
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.channel import readers
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import DrainRequest, StopRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.subtasklog.records import Batch, Open
from tests.remote.cluster import Cluster
from tests.remote.jobs import endless
from tests.remote.master_process import MasterProcess
from tests.remote.worker_process import WorkerProcess
from tests.simulation.world import JOB

pytestmark = pytest.mark.slow

LIVE = SubtaskId("live/0")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A running job whose producers have all published something."""
    made = endless()
    made.run(lambda: made.state.status is JobStatus.RUNNING)
    made.run(lambda: {"live/0", "live/1"} <= made.world.partitions().keys())
    yield made
    made.world.delete()


def attempts(cluster: Cluster) -> int:
    return sum(isinstance(record, Open) for record in cluster.world.logs[LIVE])


def worker(cluster: Cluster) -> WorkerProcess:
    (running,) = [
        process for process in cluster.processes if isinstance(process, WorkerProcess) and process.subtasks == (LIVE,)
    ]
    return running


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
    write_request(cluster.world.live, JOB, StopRequest(epoch=cluster.state.epoch))
    return lambda: cluster._watched.refresh().status is JobStatus.STOPPED


def unread(cluster: Cluster, subtask: SubtaskId) -> set[str]:
    """Return the files of batches that some consumer had not read completely by the last completed checkpoint."""
    state = cluster._watched.refresh()
    done = state.checkpoints.get(state.last_completed)
    snapshots = [
        (done.subtasks.get(reader) if done else None, channel) for reader, channel in readers(cluster.graph, subtask)
    ]
    lowest = min(0 if snapshot is None else snapshot.inputs.get(channel.key, 0) for snapshot, channel in snapshots)
    # these are the archive's records: no entry is ever deleted from it
    records = list(enumerate(cluster.world.logs[subtask]))
    batches = [record for number, record in records if isinstance(record, Batch) and number >= lowest - 1]
    return {file.path for batch in batches for file in batch.files}


@pytest.mark.parametrize("happens", [loses_its_jobmaster, loses_a_worker, has_a_worker_leave, is_stopped])
def test_unread_partition_files_survive_every_failure(
    cluster: Cluster, happens: Callable[[Cluster], Callable[[], bool]]
) -> None:
    cluster.run(happens(cluster))
    awaited = {subtask: unread(cluster, subtask) for subtask in (LIVE, SubtaskId("live/1"))}
    now = cluster.world.partitions()
    assert all(files <= set(now.get(subtask, ())) for subtask, files in awaited.items())
    cluster.run(lambda: cluster._watched.refresh().status is JobStatus.RUNNING)
    write_request(cluster.world.live, JOB, DrainRequest(epoch=cluster.state.epoch))
    cluster.finish()
    assert cluster.left == {}


def test_r7_only_partition_files_that_all_readers_have_read_are_deleted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions are cleaned up after each checkpoint. A reader that misses a file would block the job forever."""
    monkeypatch.setattr(retention, "TRUNCATE_AT", 1)
    first = {subtask: set(files) for subtask, files in cluster.world.partitions().items()}
    cluster.run(
        lambda: (
            not any(
                first[subtask] & set(files) for subtask, files in cluster.world.partitions().items() if subtask in first
            )
        ),
        4000,
    )
    write_request(cluster.world.live, JOB, DrainRequest(epoch=cluster.state.epoch))
    cluster.finish()
