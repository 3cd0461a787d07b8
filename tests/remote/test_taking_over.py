"""A JobMaster that takes over a prepared job: its checks, and the workers it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.jobmaster.errors import SubtaskLogLostError
from airflow_provider_ckpt.jobmaster.recovery import takeover
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.journal.errors import JobDeletedError
from airflow_provider_ckpt.journal.events import DeletionBegun
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import DrainRequest
from airflow_provider_ckpt.model.job_status import JobStatus, RuntimeMode
from airflow_provider_ckpt.model.worker import Worker as Place
from airflow_provider_ckpt.sinks.errors import OutputLostError
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file.journaled_sinks import RecordedSink
from airflow_provider_ckpt.storage.layout import journal_path, subtask_log_path
from airflow_provider_ckpt.subtasklog.log_state import fold
from tests.remote.cluster import Cluster
from tests.remote.jobs import endless, one_worker
from tests.remote.master_process import MasterProcess
from tests.simulation.world import JOB

SOURCE = SubtaskId("src/0")


@pytest.fixture
def made() -> Iterator[Callable[[Cluster], Cluster]]:
    clusters: list[Cluster] = []

    def keep(cluster: Cluster) -> Cluster:
        clusters.append(cluster)
        return cluster

    yield keep
    for kept in clusters:
        kept.world.delete()


def all_die(cluster: Cluster) -> None:
    for process in cluster.processes:
        process.kill()
    cluster.supervises = False


def start_master(cluster: Cluster) -> MasterProcess:
    """Start a JobMaster, which takes the job over if nothing is wrong."""
    master = cluster.master()
    master.run()
    return master


def journal(cluster: Cluster) -> Journal:
    return Journal(cluster.world.live, JOB)


def test_r9_an_older_copy_of_the_root_is_not_taken_over(made: Callable[[Cluster], Cluster]) -> None:
    """The journal is restored to an older copy while the job is prepared, so no planner runs in between."""
    cluster = made(endless())
    cluster.run(lambda: cluster.state.last_released >= 1)
    before = set(cluster.world.live.list(journal_path(JOB)))
    released = cluster.state.last_released
    cluster.run(lambda: cluster._watched.refresh().last_released >= released + 3)
    all_die(cluster)
    for name in set(cluster.world.live.list(journal_path(JOB))) - before:
        cluster.world.live.delete(f"{journal_path(JOB)}/{name}")
    older = journal(cluster).refresh()
    assert older.deployment, "it is prepared"
    assert isinstance(start_master(cluster).error, OutputLostError)
    assert journal(cluster).refresh().epoch == older.epoch, "nothing is claimed"


def test_r16_a_log_shorter_than_its_checkpoint_is_refused(
    made: Callable[[Cluster], Cluster],
) -> None:
    cluster = made(endless())
    cluster.run(lambda: cluster._watched.refresh().last_released >= 3)
    all_die(cluster)
    path = subtask_log_path(JOB, "b", 0)
    for name in cluster.world.live.list(path)[1:]:
        cluster.world.live.delete(f"{path}/{name}")
    assert isinstance(start_master(cluster).error, SubtaskLogLostError)


def test_a_job_with_a_missing_sink_is_not_taken_over(made: Callable[[Cluster], Cluster]) -> None:
    """Releases of the other sinks would count as complete."""
    cluster = made(endless())
    cluster.run(lambda: cluster.state.last_released >= 1)
    all_die(cluster)
    epoch = journal(cluster).refresh().epoch
    del cluster.sinks["raw"]
    error = start_master(cluster).error
    assert isinstance(error, InvalidInputError)
    assert "which the given definition lacks" in str(error)
    assert journal(cluster).refresh().epoch == epoch


def test_r9_a_job_whose_output_was_lost_is_not_taken_over(
    made: Callable[[Cluster], Cluster],
) -> None:
    cluster = made(endless())
    cluster.run(
        lambda: any(event.sinks.get("raw", {}).get("rows") for event in cluster._watched.refresh().releases.values())
    )
    all_die(cluster)
    cluster.world.targets["raw"].last_released = 0
    assert isinstance(start_master(cluster).error, OutputLostError)


def test_r16_output_staged_for_a_final_release_survives_a_takeover(
    made: Callable[[Cluster], Cluster],
) -> None:
    """Output staged under one JobMaster must be kept by the next. The other sinks release meanwhile."""
    cluster = made(endless())
    cluster.operators = tuple(
        RecordedSink(uid, FileSink(f"/nowhere/{uid}"), release)
        for uid, release in (("out", "final"), ("raw", "checkpoint"))
    )
    cluster.world.final_only = frozenset({"out"})
    out, raw = cluster.world.targets["out"], cluster.world.targets["raw"]
    cluster.run(lambda: cluster.state.last_released >= 3 and bool(raw.rows))
    cluster.awake(MasterProcess)[0].kill()
    so_far = cluster.state.last_released
    cluster.run(lambda: cluster.state.last_released >= so_far + 3)
    assert out.rows == []
    write_request(cluster.world.live, JOB, DrainRequest(epoch=cluster.state.epoch))
    cluster.finish()
    assert out.rows


def test_r11_a_subtask_with_a_closed_log_has_finished(
    made: Callable[[Cluster], Cluster],
) -> None:
    """The worker and the JobMaster die before the journal has the end."""
    cluster = made(one_worker(rows=6))
    cluster.planner().run()
    cluster.add(cluster.master())
    cluster.add(cluster.worker(cluster.groups[0]))

    def is_closed() -> bool:
        cluster.world.look()
        return fold(enumerate(cluster.world.logs[SOURCE])).closed

    cluster.run(is_closed)
    assert SOURCE not in journal(cluster).refresh().finished
    all_die(cluster)
    assert start_master(cluster).error is None
    assert SOURCE in journal(cluster).refresh().finished


@pytest.mark.parametrize(("mode", "seconds"), [("batch", 30.0), ("streaming", Cluster.timing.lost_after)])
def test_batch_mode_has_its_own_timeout_for_previous_workers(
    made: Callable[[Cluster], Cluster], mode: RuntimeMode, seconds: float
) -> None:
    """``previous_worker_timeout`` (FLIP-383) applies until the first sign of life."""
    cluster = made(one_worker(mode, splits=6))
    cluster.planner().run()
    cluster.add(cluster.master())
    cluster.add(cluster.worker(cluster.groups[0]))
    cluster.run(lambda: bool(cluster._watched.refresh().splits_assigned))
    all_die(cluster)
    master = start_master(cluster)
    assert master.job is not None
    gateway = master.job._gateway
    gateway.poll()  # type: ignore[attr-defined]
    (host,) = gateway._hosts.values()  # type: ignore[attr-defined]
    assert host.liveness.limit == seconds
    assert [event.deployment > 0 for event in cluster.claims()] == [False, True, True]


def test_a_job_without_workers_ends_after_the_timeout(made: Callable[[Cluster], Cluster]) -> None:
    """No attempt was ever begun. The run ends with an error, so that the user learns of the missing workers."""
    cluster = made(endless())
    cluster.patience = 20.0
    cluster.supervises = False
    cluster.planner().run()
    cluster.add(cluster.master())
    cluster.run(lambda: cluster._watched.refresh().status is JobStatus.RESTARTING)
    assert "has not begun within 20 s" in (cluster.state.cause or "")


def test_a_job_that_is_being_deleted_is_not_taken_over(
    made: Callable[[Cluster], Cluster],
) -> None:
    """The error must not ask the user to prepare the job again."""
    cluster = made(endless())
    cluster.run(lambda: cluster.state.last_released >= 1)
    all_die(cluster)
    deletes = journal(cluster)
    epoch = takeover.claim(deletes, "deletes", Place("x")).epoch
    OwnedJournal(deletes).write(DeletionBegun(JobStatus.RUNNING, 1.0))
    assert isinstance(start_master(cluster).error, JobDeletedError)
    assert journal(cluster).refresh().epoch == epoch, "nothing is claimed"
