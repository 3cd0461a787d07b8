"""Releases from outside: no driver lives, and completed output becomes visible (R16). Needs no Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.client.errors import NoSuchJobError
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.errors import DefinitionChangedError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.jobmaster.errors import JobRunsError, SubtaskLogLostError
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.errors import CorruptJournalError, FencedError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition, SinkDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.sinks.errors import OutputLostError
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.local_storage import LocalStorage
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.client.ended_job import GONE, HERE
from tests.client.release_log_sink import ReleaseLogSink

GRAPH = JobGraph((JobVertex("v", ("v",), ("v",), (), ("s",), bounded=False),), ())
ELSEWHERE = Worker(host="worker-7", pid=4711)


class Driver:
    """Journal and log that a driver leaves: three batches, a checkpoint after each, the first of them released."""

    def __init__(self, folder: Path, worker: Worker) -> None:
        self.folder, self.root = folder, folder / "root"
        self.storage = open_root(open_storage(self.root))
        self.journal = Journal(self.storage, "orders")
        self.journal.claim("shop~t1", worker, 1.0)
        sinks = {"s": SinkDefinition("every_checkpoint", self.sink().definition())}
        plan = JobDefinition("streaming", {}, {}, sinks)
        self.write(
            ev.JobCreated("orders", GRAPH, "streaming", SubmittedOptions(), 1.0),
            ev.PlanRecorded(GRAPH, {}, 1.0, plan),
            ev.StatusChanged(JobStatus.RUNNING, 1.0),
        )
        self.log = SubtaskLog(self.storage, subtask_log_path("orders", "v", 0))
        self.log.load()
        self.log.open(AttemptId(1, 0, "a1"))
        for number in (1, 2, 3):
            self.log.append_batch(Batch(number, {}, handles={"s": {"id": f"h{number}", "rows": number}}))
            snapshot = self.log.barrier(1, number)
            self.write(ev.CheckpointCompleted(number, 1.0, 2.0, "checkpoint", {SubtaskId("v/0"): snapshot}, {}))
        self.release_log.write_text('{"1": ["h1"]}')
        self.write(ev.CheckpointReleased(1, 2.0, {"s": {"rows": 1}}))

    @property
    def release_log(self) -> Path:
        return self.folder / "release_log.json"

    def write(self, *events: ev.Event) -> None:
        for event in events:
            self.journal.write(event)

    def sink(self, on_release: Callable[[int], object] = lambda checkpoint: None) -> ReleaseLogSink:
        return ReleaseLogSink(self.release_log, on_release)

    def job(self, sink: ReleaseLogSink | None = None, uid: str = "s", **options: Any) -> Job:
        job = Job("orders")

        @job.source(uid="v")
        def live(read: Any) -> Any:
            raise AssertionError("a release calls none of the job's functions")

        job.sink(uid, live, sink or self.sink(), **options)
        return job

    @property
    def client(self) -> JobClient:
        return JobClient(self.root, "orders")

    def released(self) -> str:
        return self.release_log.read_text()


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Driver]:
    return lambda worker=GONE: Driver(tmp_path, worker)


ALL = '{"1": ["h1"], "3": ["h2", "h3"]}'
FIRST = '{"1": ["h1"]}'


def test_r16_all_checkpoints_that_a_lost_driver_completed_are_released(
    make: Callable[..., Driver],
) -> None:
    driver = make()
    events = driver.client.release(driver.job())
    assert [(event.checkpoint, event.sinks) for event in events] == [(3, {"s": {"rows": 5}})]
    assert driver.released() == ALL
    state = driver.client.state()
    assert (state.last_released, state.status, state.epoch) == (3, JobStatus.RESTARTING, 2)
    assert state.cause == "the driver was lost; what it had completed was released from outside"
    assert [state.releases[3]] == events


def test_a_second_release_writes_nothing(make: Callable[..., Driver]) -> None:
    driver = make()
    driver.client.release(driver.job())
    before = driver.storage.files("")
    assert driver.client.release(driver.job()) == []
    assert driver.storage.files("") == before


@pytest.mark.parametrize("status", [JobStatus.RESTARTING, JobStatus.STOPPED, JobStatus.FAILED])
def test_a_release_keeps_the_status_of_the_job(make: Callable[..., Driver], status: JobStatus) -> None:
    driver = make(ELSEWHERE)
    driver.write(ev.StatusChanged(status, 3.0, "boom"))
    driver.client.release(driver.job())
    state = driver.client.state()
    assert (driver.released(), state.status, state.cause) == (ALL, status, "boom")


def test_a_release_keeps_the_lost_driver_as_the_worker(make: Callable[..., Driver]) -> None:
    """The state keeps the lost driver as its worker, because any process may do the release.

    The attempt's name shows an Airflow task whose job it is.
    """
    driver = make()
    driver.client.release(driver.job())
    state = driver.client.state()
    assert (state.worker, state.attempt) == (GONE, "shop~t1~release")


def test_r3_a_release_fences_the_previous_driver(make: Callable[..., Driver]) -> None:
    driver = make(ELSEWHERE)
    driver.client.release(driver.job(), driver_is_gone=True)
    with pytest.raises(FencedError):
        driver.write(ev.CheckpointTriggered(4, 3.0))


def test_r8_a_driver_that_takes_over_ends_the_release(make: Callable[..., Driver]) -> None:
    driver = make()
    job = driver.job(driver.sink(lambda checkpoint: Journal(driver.storage, "orders").claim("t2", Worker(), 3.0)))
    with pytest.raises(FencedError):
        driver.client.release(job)
    state = driver.client.state()
    assert (state.epoch, state.attempt, state.last_released) == (3, "t2", 1)


def test_r8_an_overtaken_release_does_not_call_the_sinks(make: Callable[..., Driver]) -> None:
    """The release does not call the sinks at all."""
    driver = make()
    asked: list[int] = []
    storage = Overtaking(str(driver.root))
    with pytest.raises(FencedError):
        JobClient(storage, "orders").release(driver.job(driver.sink(asked.append)))
    assert (storage.overtaken, asked) == (True, [])


class Overtaking(LocalStorage):
    """Storage through which another driver claims the job while the logs are being read."""

    overtaken = False

    def list(self, path: str) -> list[str]:
        if path == subtask_log_path("orders", "v", 0) and not self.overtaken:
            self.overtaken = True
            Journal(self, "orders").claim("t2", Worker(), 3.0)
        return super().list(path)


@pytest.mark.parametrize(
    ("worker", "says_gone", "words"),
    [(HERE, True, "lives"), (HERE, False, "lives"), (ELSEWHERE, False, "on worker-7 cannot be seen from here")],
)
def test_a_release_is_refused_while_the_driver_may_live(
    make: Callable[..., Driver], worker: Worker, says_gone: bool, words: str
) -> None:
    driver = make(worker)
    with pytest.raises(JobRunsError, match=f"is RUNNING, and its driver {words}"):
        driver.client.release(driver.job(), driver_is_gone=says_gone)
    driver.write(ev.CheckpointTriggered(4, 3.0))  # not fenced
    assert driver.released() == FIRST


def test_a_release_is_refused_until_the_driver_has_exited(make: Callable[..., Driver]) -> None:
    driver = make(HERE)
    driver.write(ev.StatusChanged(JobStatus.RESTARTING, 3.0))
    with pytest.raises(JobRunsError, match="is RESTARTING, and its driver lives"):
        driver.client.release(driver.job())


@pytest.mark.parametrize("has_master", [True, False])
def test_w4_a_release_is_refused_while_workers_may_live(make: Callable[..., Driver], has_master: bool) -> None:
    """The workers still publish, and the claim of the release would end them."""
    driver = make()
    driver.write(ev.DeploymentPrepared(1, 2.5))
    if has_master:
        driver.journal.claim("shop~t1.coordinate", GONE, 3.0, deployment=1)
    epoch = driver.client.state().epoch
    with pytest.raises(JobRunsError, match=r"in epoch 1: .* Start `ckpt master FILE.py:JOB --job-id orders "):
        driver.client.release(driver.job())
    state = driver.client.state()
    assert (driver.released(), state.epoch, state.deployment) == (FIRST, epoch, 1)
    driver.client.release(driver.job(), driver_is_gone=True)
    state = driver.client.state()
    assert (driver.released(), state.status, state.deployment) == (ALL, JobStatus.RESTARTING, 0)


def test_an_ended_deployment_does_not_stop_a_release(make: Callable[..., Driver]) -> None:
    driver = make()
    driver.write(ev.DeploymentPrepared(1, 2.5), ev.StatusChanged(JobStatus.RESTARTING, 3.0, "boom"))
    driver.client.release(driver.job())
    assert driver.released() == ALL


def test_a_changed_definition_is_refused_before_the_claim(make: Callable[..., Driver]) -> None:
    driver = make()
    before = driver.storage.files("")
    with pytest.raises(InvalidInputError, match="the sinks s,"):
        driver.client.release(driver.job(uid="other"))
    with pytest.raises(DefinitionChangedError, match="path"):
        driver.client.release(driver.job(ReleaseLogSink(driver.folder / "another.json")))
    with pytest.raises(DefinitionChangedError, match="release"):
        driver.client.release(driver.job(release="final"))
    driver.release_log.unlink()
    with pytest.raises(OutputLostError, match="its folder or table, or the records of"):
        driver.client.release(driver.job())
    assert driver.storage.files("") == before


def test_r9_an_older_copy_of_the_root_releases_nothing(make: Callable[..., Driver]) -> None:
    driver = make()
    driver.release_log.write_text('{"1": ["h1"], "4": ["h4"]}')
    before = driver.storage.files("")
    with pytest.raises(OutputLostError, match=r"'s' has released checkpoint 4, and the newest .* knows is 3"):
        driver.client.release(driver.job())
    assert driver.storage.files("") == before


def test_a_log_that_lost_entries_releases_nothing(make: Callable[..., Driver]) -> None:
    driver = make()
    shutil.rmtree(driver.root / subtask_log_path("orders", "v", 0))
    with pytest.raises(SubtaskLogLostError):
        driver.client.release(driver.job())
    state = driver.client.state()
    assert (state.last_released, state.status, driver.released()) == (1, "RESTARTING", FIRST)


def test_a_damaged_journal_releases_nothing(make: Callable[..., Driver]) -> None:
    driver = make()
    sorted((driver.root / "orders" / "journal").glob("*.json"))[-1].write_text("{")
    with pytest.raises(CorruptJournalError):
        driver.client.release(driver.job())
    assert driver.released() == FIRST


def test_a_failed_release_keeps_the_status_and_can_be_repeated(make: Callable[..., Driver]) -> None:
    driver = make()
    driver.write(ev.StatusChanged(JobStatus.FAILED, 3.0, "boom"))

    def fails(checkpoint: int) -> None:
        if checkpoint == 3:
            raise StorageTransientError(verb="move", uri="x", reason="no answer")

    with pytest.raises(StorageTransientError):
        driver.client.release(driver.job(driver.sink(fails)))
    state = driver.client.state()
    assert (state.last_released, state.status, state.cause) == (1, JobStatus.FAILED, "boom")
    assert [event.checkpoint for event in driver.client.release(driver.job())] == [3]
    assert driver.released() == ALL


class KilledError(BaseException):
    """Error that stands for a killed process; nothing handles it."""


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.STOPPED, JobStatus.RESTARTING, JobStatus.RUNNING])
def test_a_killed_release_keeps_the_status(make: Callable[..., Driver], status: JobStatus) -> None:
    driver = make()
    driver.write(ev.StatusChanged(status, 3.0, "boom"))

    def killed(checkpoint: int) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        driver.client.release(driver.job(driver.sink(killed)))
    state = driver.client.state()
    assert (state.epoch, state.last_released, state.status, state.cause) == (2, 1, status, "boom")
    driver.client.release(driver.job())  # the lost driver is still seen to be gone
    assert driver.released() == ALL
    lost = status is JobStatus.RUNNING
    assert driver.client.state().status is (JobStatus.RESTARTING if lost else status)


def test_a_job_that_was_never_run_has_nothing_to_release(make: Callable[..., Driver]) -> None:
    driver = make()
    with pytest.raises(NoSuchJobError):
        JobClient(driver.root, "visits").release(driver.job())


JOB = """
from pathlib import Path
from airflow_provider_ckpt import Job
from tests.client.release_log_sink import ReleaseLogSink

job = Job("orders")

@job.source(uid="v")
def live(read):
    raise AssertionError

job.sink("s", live, ReleaseLogSink(Path({release_log!r})))
"""


def test_the_command_line_prints_the_released_checkpoints(
    make: Callable[..., Driver], capsys: pytest.CaptureFixture[str]
) -> None:
    driver = make()
    file = driver.folder / "orders.py"
    file.write_text(JOB.format(release_log=str(driver.release_log)))
    command = ["release", "orders", f"{file}:job", "--root", str(driver.root)]
    assert main(command) == 0
    assert capsys.readouterr().out == "checkpoint 3 released 5 rows\n"
    assert driver.released() == ALL
    assert main(command) == 0
    assert capsys.readouterr().out == "job orders has nothing to release\n"


def test_the_command_line_refuses_a_driver_that_may_live(
    make: Callable[..., Driver], capsys: pytest.CaptureFixture[str]
) -> None:
    driver = make(ELSEWHERE)
    file = driver.folder / "orders.py"
    file.write_text(JOB.format(release_log=str(driver.release_log)))
    command = ["release", "orders", f"{file}:job", "--root", str(driver.root)]
    assert main(command) == 2
    assert "--driver-is-gone" in capsys.readouterr().err
    assert main([*command, "--driver-is-gone"]) == 0
    assert driver.released() == ALL
