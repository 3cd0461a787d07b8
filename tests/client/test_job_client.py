"""A job seen from outside: a client reads it, waits for it and sends requests. The tests write the journal as a driver
would."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.client.errors import JobWaitTimeoutError, NoSuchJobError
from airflow_provider_ckpt.client.job_client import JobClient, list_jobs
from airflow_provider_ckpt.client.job_facts import has_ended
from airflow_provider_ckpt.errors import RequestRefusedError, RequestUnansweredError, TransientError
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.checkpoint_view import CheckpointView
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import REQUESTS, DrainRequest, JobRequest, StopRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.errors import ForeignRootError, InvalidJobIdError, NoRootError
from airflow_provider_ckpt.storage.local_storage import LocalStorage
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from tests.client.ended_job import GONE
from tests.journal.samples import one_event_of_each
from tests.support.journals import write_events

parse_outcome = RequestOutcome.parse

ENDS = [JobStatus.FINISHED, JobStatus.STOPPED, JobStatus.FAILED, JobStatus.RESTARTING]


class World:
    """Root with a journal, and a clock that only sleeping advances; ``then`` runs at the second sleep."""

    def __init__(self, folder: Path) -> None:
        self.root = str(folder / "root")
        self.now, self.sleeps = 0.0, 0
        self.then: Callable[[], object] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps += 1
        if self.sleeps == 2:
            self.then()

    def client(self, job_id: str = "orders") -> JobClient:
        return JobClient(self.root, job_id, clock=lambda: self.now, sleep=self.sleep)

    def driver(self, job_id: str = "orders", worker: Worker | None = None) -> Journal:
        journal = Journal(open_root(open_storage(self.root)), job_id)
        journal.claim("t", worker or Worker(), 1.0)
        journal.write(ev.StatusChanged(JobStatus.RUNNING, 1.0))
        return journal


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def ended(status: JobStatus) -> ev.StatusChanged:
    return ev.StatusChanged(status, 2.0)


# ---- reading


def test_a_client_reads_a_job_before_its_first_run(world: World) -> None:
    client = world.client()
    assert client.read_state() == JobState("orders")
    assert not Path(world.root).exists(), "looking writes nothing"
    driver = world.driver("another")
    assert client.read_state() == JobState("orders")
    driver = world.driver()
    assert client.read_state() == driver.state
    write_events(driver, ended(JobStatus.FINISHED))
    assert client.read_state().status is JobStatus.FINISHED


def test_the_error_for_an_unknown_job_names_the_existing_jobs(world: World) -> None:
    with pytest.raises(NoRootError):
        world.client().state()
    world.driver("visits")
    world.driver("returns")
    with pytest.raises(NoSuchJobError, match=r"'orders' under .*root.*Jobs there: returns, visits"):
        world.client().state()
    with pytest.raises(NoSuchJobError):
        world.client().checkpoints()
    with pytest.raises(NoSuchJobError):
        world.client().stop()


def test_checkpoints_are_listed_oldest_first(world: World) -> None:
    write_events(
        world.driver(),
        ev.CheckpointTriggered(1, 10.0),
        ev.CheckpointAborted(1, "CHECKPOINT_EXPIRED", 20.0),
        ev.CheckpointCompleted(2, 30.0, 31.5, "savepoint", {}, {"live": "running", "history": "finished"}),
        ev.CheckpointReleased(2, 32.0, {"lake": {"files": 3}}),
    )
    first, second = world.client().checkpoints()
    assert first == CheckpointView(1, "checkpoint", "aborted", triggered_at=10.0, reason="CHECKPOINT_EXPIRED")
    assert first.duration_ms is None
    assert (second.status, second.duration_ms, second.finished) == ("released", 1500, ("history",))
    assert (second.released_at, second.sinks) == (32.0, {"lake": {"files": 3}})


def test_a_returned_state_does_not_change(world: World) -> None:
    """The test changes every field: a state that was returned must not grow with the journal's own state."""
    driver, client = world.driver(), world.client()
    write_events(driver, *[event for event in one_event_of_each() if not isinstance(event, ev.EpochClaimed)])
    seen = client.read_state()
    before = copy.deepcopy(seen)
    assert seen == driver.state
    write_events(
        driver,
        ev.CheckpointTriggered(7, 1.0),
        ev.CheckpointCompleted(7, 1.0, 2.0, "checkpoint", {}, {}),
        ev.CheckpointReleased(7, 3.0),
        ev.CheckpointAborted(8, "x", 3.0),
        ev.SourceEnded("daily", "other", 3, 3.0),
        ev.SourceDropped("daily", "other", 3, 3.0),
        ev.SourceFrozen("other", None, 0, 3.0),
        ev.LateFilesFound("other", ("/late",), True, 3.0),
        ev.SubtaskFinished(SubtaskId("daily/1"), "t", 3.0),
        ev.RequestAnswered("r9", "stop", parse_outcome("failed: x"), 3.0),
        ended(JobStatus.RESTARTING),
    )
    assert client.read_state() == driver.state
    assert seen == before


def test_jobs_are_listed_by_uri_and_by_open_storage(world: World) -> None:
    with pytest.raises(NoRootError):
        list_jobs(world.root)
    for job_id in ("visits", "orders"):
        world.driver(job_id)
    assert [state.job_id for state in list_jobs(world.root)] == ["orders", "visits"]
    assert list_jobs(open_storage(world.root)) == list_jobs(Path(world.root))
    assert JobClient(open_storage(world.root), "orders").state().status == "RUNNING"


def test_an_invalid_job_id_and_a_foreign_root_are_refused(world: World) -> None:
    with pytest.raises(InvalidJobIdError):
        JobClient(world.root, "../orders")
    Path(world.root).mkdir()
    Path(world.root, "ckpt-root.json").write_text('{"format": "another"}')
    with pytest.raises(ForeignRootError):
        world.client().read_state()


# ---- waiting


@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.STOPPED, JobStatus.FAILED])
def test_wait_returns_when_the_job_has_ended(world: World, status: JobStatus) -> None:
    driver = world.driver()
    world.then = lambda: write_events(driver, ended(JobStatus.RESTARTING), ended(status))
    assert (world.client().wait().status, world.sleeps) == (status, 2)


def test_wait_covers_a_later_start_and_a_restart(world: World) -> None:
    world.then = lambda: write_events(world.driver(), ended(JobStatus.RESTARTING))
    state = world.client().wait(lambda state: state.status is JobStatus.RESTARTING, timeout=60)
    assert not has_ended(state)
    with pytest.raises(JobWaitTimeoutError, match=r"'orders' is RESTARTING.*within 3 s"):
        world.client().wait(timeout=3)


def test_wait_ends_with_its_timeout(world: World) -> None:
    with pytest.raises(JobWaitTimeoutError, match="'orders' is not started") as raised:
        world.client().wait(timeout=3, poll=1)
    assert (world.now, world.sleeps, raised.value.retryable) == (3.0, 3, True)


def test_a_storage_error_ends_the_wait_at_once(world: World) -> None:
    class Silent(LocalStorage):
        def read(self, path: str) -> bytes:
            raise TransientError(message="no answer")

    with pytest.raises(TransientError, match="no answer"):
        JobClient(Silent(world.root), "orders").wait()


# ---- requests


def test_requests_carry_the_epoch_of_the_driver(world: World) -> None:
    world.driver()
    world.driver()
    client, storage = world.client(), open_storage(world.root)
    stop, drain = client.stop(exit_if_it_fails=True), client.drain()
    pending = {request.name: request for request in pending_requests(storage, "orders", 2, ())}
    assert {stop.name, drain.name} == set(pending)
    assert pending[stop.name] == stop == StopRequest(exit_if_it_fails=True, name=stop.name, epoch=2, at=stop.at)
    assert pending[drain.name] == drain == DrainRequest(name=drain.name, epoch=2, at=drain.at)


def test_a_client_reports_which_epoch_s_driver_must_exit(world: World) -> None:
    world.driver()
    client = world.client()
    client.stop()
    assert not client.is_asked_to_leave(1)
    client.stop(exit_if_it_fails=True)
    assert client.is_asked_to_leave(1)
    assert not client.is_asked_to_leave(2)


def test_a_driver_that_has_only_claimed_the_job_takes_requests(world: World) -> None:
    """The first run is in this state before it has written its JobCreated."""
    driver = Journal(open_root(open_storage(world.root)), "orders")
    driver.claim("t", Worker(), 1.0)
    request = world.client().stop()
    assert request.epoch == 1
    with pytest.raises(RequestUnansweredError, match="has not answered"):
        world.client().answer(request, 2.0)
    world.sleeps = 0
    world.then = lambda: write_events(driver, ended(JobStatus.RESTARTING))
    assert world.client().answer(request, 60.0).state.status is JobStatus.RESTARTING
    assert world.sleeps == 2


def test_a_request_is_refused_if_the_first_driver_died_before_it_ran(world: World) -> None:
    driver = Journal(open_root(open_storage(world.root)), "orders")
    driver.claim("t", GONE, 1.0)
    with pytest.raises(RequestRefusedError, match="not RUNNING yet, but its driver is gone"):
        world.client().stop()


def test_a_request_with_an_epoch_does_not_read_the_journal(world: World) -> None:
    storage = open_root(open_storage(world.root))
    asked = world.client().stop(epoch=4, exit_if_it_fails=True)
    assert [request.name for request in pending_requests(storage, "orders", 4, ())] == [asked.name]


@pytest.mark.parametrize("status", ENDS)
def test_a_job_that_has_ended_refuses_requests(world: World, status: JobStatus) -> None:
    write_events(world.driver(), ended(status))
    for ask in (world.client().stop, world.client().drain):
        with pytest.raises(RequestRefusedError, match=status):
            ask()
    assert open_storage(world.root).list("orders/requests") == []


def test_a_request_to_a_dead_driver_is_refused(world: World) -> None:
    world.driver(worker=GONE)
    with pytest.raises(RequestRefusedError, match="RUNNING, but its driver is gone"):
        world.client().stop()


def test_w20_a_deployment_takes_requests_without_a_live_jobmaster(world: World) -> None:
    """Its planner is gone, and its JobMaster may be, too. The deployment's next JobMaster takes the request."""
    planner = world.driver(worker=GONE)
    write_events(planner, ev.DeploymentPrepared(1, 2.0))
    first = world.client().stop()
    planner.claim("t-2", GONE, 3.0, deployment=1)
    second = world.client().drain()
    assert (first.epoch, second.epoch) == (1, 2)
    taken = pending_requests(open_storage(world.root), "orders", 3, (), since=1)
    assert [request.name for request in taken] == [first.name, second.name]


def asked(kind: str) -> JobRequest:
    return REQUESTS[kind](name="r", epoch=1)


def test_the_answer_to_a_stop_comes_when_the_job_has_ended(world: World) -> None:
    driver = world.driver()
    world.then = lambda: write_events(
        driver,
        ev.CheckpointReleased(3, 2.0),
        ev.RequestAnswered("r", "stop", parse_outcome("completed: savepoint 3 is released"), 2.0),
        ended(JobStatus.STOPPED),
    )
    answer = world.client().answer(asked("stop"), 60.0)
    assert (answer.state.status, answer.state.last_released, world.sleeps) == ("STOPPED", 3, 2)
    assert (answer.outcome, answer.is_served) == (parse_outcome("completed: savepoint 3 is released"), True)


@pytest.mark.parametrize("outcome", ["failed: no savepoint within 60 s; the job continues", "refused: batch"])
def test_a_stop_may_be_answered_while_the_job_continues(world: World, outcome: str) -> None:
    driver = world.driver()
    write_events(driver, ev.RequestAnswered("r", "stop", parse_outcome("accepted"), 2.0))
    world.then = lambda: write_events(driver, ev.RequestAnswered("r", "stop", parse_outcome(outcome), 2.0))
    answer = world.client().answer(asked("stop"), 60.0)
    assert (answer.state.status, answer.outcome, world.sleeps) == ("RUNNING", parse_outcome(outcome), 2)
    assert not answer.is_served


def test_a_request_without_an_outcome_is_judged_by_the_status(world: World) -> None:
    write_events(
        world.driver(), ev.RequestAnswered("r", "stop", parse_outcome("accepted"), 2.0), ended(JobStatus.STOPPED)
    )
    assert world.client().answer(asked("stop")).is_served
    assert not world.client().answer(asked("drain")).is_served


@pytest.mark.parametrize(("answered", "words"), [(False, "has not answered"), (True, "has taken")])
def test_waiting_for_the_answer_of_a_dead_driver_times_out(world: World, answered: bool, words: str) -> None:
    driver = world.driver()
    if answered:
        write_events(driver, ev.RequestAnswered("r", "stop", parse_outcome("accepted"), 2.0))
    with pytest.raises(RequestUnansweredError, match=words) as raised:
        world.client().answer(asked("stop"), 3.0)
    assert raised.value.retryable
    assert 3.0 <= world.now <= 3.5


def test_r22_waiting_ends_when_another_driver_took_the_job(world: World) -> None:
    world.driver()
    world.then = world.driver
    with pytest.raises(RequestUnansweredError, match="epoch 2"):
        world.client().answer(asked("drain"), 60.0)


def test_neither_spark_nor_airflow_is_imported(world: World) -> None:
    world.driver()
    code = (
        "import sys; from airflow_provider_ckpt import JobClient, JobStatus, list_jobs; "
        f"assert JobClient({world.root!r}, 'orders').state().status is JobStatus.RUNNING; list_jobs({world.root!r}); "
        "sys.exit(', '.join({'pyspark', 'airflow', 'fsspec', 'pyarrow'} & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")
