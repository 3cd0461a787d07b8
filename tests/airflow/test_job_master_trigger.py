"""Trigger that runs a JobMaster: its events, its standby, and its reaction to kills and take-overs.

The JobMaster is fake, the journal is real.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.model.job_request import asks_to_exit
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.remote import master as masters
from airflow_provider_ckpt.remote.leader_monitor import LeaderMonitor
from airflow_provider_ckpt.remote.mailbox import Outbox, write_outbox
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers import job_master
from airflow_provider_ckpt.triggers.job_master import JobMasterTrigger
from tests.airflow.group_journal import JOB_ID, SUBTASKS, FakeTaskStates, coordinated, ended, prepared
from tests.support.waiting import wait_until

ATTEMPT = f"{JOB_ID}~t1.coordinate"
TIMING = {"poll": 0.1, "lost_after": 30.0, "silence": 300.0, "rest": 0.0}
Play = Callable[[Any], ExitCode]


class PlayedMasters:
    """Fake of ``run_master``. ``plays``: functions for the next runs, in order."""

    def __init__(self) -> None:
        self.plays: list[Play] = []
        self.runs: list[Any] = []
        self.abandoned: list[str] = []
        self.has_unassigned = True
        self.has_report = threading.Event()
        self.is_abandoned = threading.Event()

    def end_early(self, cause: str) -> None:
        self.abandoned.append(cause)
        self.has_report.set()

    def abandon(self) -> None:
        self.is_abandoned.set()
        self.has_report.set()

    def __call__(self, remote: Any, on_status: Any, on_master: Any) -> ExitCode:
        self.runs.append(remote)
        on_master(self)
        return self.plays.pop(0)(on_status)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedMasters:
    made = PlayedMasters()
    monkeypatch.setattr(masters, "run_master", made)
    for name in ("SETTLING", "WATCH", "STAND_BY", "RETRY"):
        monkeypatch.setattr(job_master, name, 0.01)
    return made


@pytest.fixture
def orders(journal: Callable[[str], Journal]) -> Journal:
    return prepared(journal(JOB_ID))


@pytest.fixture
def trigger(root: Storage, task_states: FakeTaskStates) -> JobMasterTrigger:
    return built(root)


def built(root: Storage, attempt: str = ATTEMPT, timing: Mapping[str, float] = TIMING) -> JobMasterTrigger:
    options = RunOptions("orders.py:job", root.uri, JOB_ID, attempt=attempt)
    tasks = {f"orders.subtask_{number}": name for number, name in enumerate(SUBTASKS)}
    first = JobMasterTrigger(
        job_id=JOB_ID,
        options=options.to_json(),
        ckpt_conn_id="ckpt_default",
        root=root.uri,
        group_id="orders",
        tasks=tasks,
        timing=timing,
    )
    _, kept = first.serialize()
    made = JobMasterTrigger(**json.loads(json.dumps(kept)))
    made._task_instance = SimpleNamespace(dag_id="shop", run_id="r1", task_id="orders.coordinate", map_index=-1)
    return made


def reports(code: ExitCode, kind: str, message: str) -> Play:
    def play(on_status: Any) -> ExitCode:
        on_status(StatusLine(kind, message))
        return code

    return play


async def first(trigger: JobMasterTrigger) -> dict[str, Any]:
    events = trigger.run()
    try:
        async for event in events:
            return json.loads(json.dumps(event.payload))  # type: ignore[no-any-return]
        raise AssertionError("the trigger ended without an event")
    finally:
        await events.aclose()  # type: ignore[attr-defined]
        await trigger.cleanup()


def event_of(trigger: JobMasterTrigger) -> dict[str, Any]:
    return asyncio.run(asyncio.wait_for(first(trigger), 60))


def test_the_event_has_the_result_of_the_jobmaster(trigger: JobMasterTrigger, played: PlayedMasters) -> None:
    played.plays = [reports(ExitCode.TERMINAL, "failed", "rows/0: no such column")]
    assert event_of(trigger) == {
        "code": "TERMINAL",
        "kind": "failed",
        "message": "rows/0: no such column",
        "abandoned": None,
    }
    (remote,) = played.runs
    assert remote.job is None, "no code of the job runs in a triggerer"
    assert (remote.options.attempt, remote.options.job_id) == (ATTEMPT, JOB_ID)


def test_no_event_is_sent_before_the_scheduler_has_recorded_the_deferral(
    trigger: JobMasterTrigger, played: PlayedMasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(job_master, "SETTLING", 12.0)
    trigger._sleep = sleep  # type: ignore[assignment]
    played.plays = [reports(ExitCode.FINISHED, "finished", "all sources have ended")]
    assert event_of(trigger)["code"] == "FINISHED"
    assert len(slept) == 1
    assert 2.0 < slept[0] <= 12.0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_crash_of_a_jobmaster_is_reported_as_a_failure(trigger: JobMasterTrigger, played: PlayedMasters) -> None:
    def dies(on_status: Any) -> ExitCode:
        raise SystemError("no more threads")

    played.plays = [dies]
    assert event_of(trigger)["code"] == "FAILED"


def test_an_airflow_request_without_an_answer_is_repeated(
    trigger: JobMasterTrigger, played: PlayedMasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks: list[object] = []
    real = CheckpointHook.asettings

    async def flaky(hook: CheckpointHook) -> Any:
        hooks.append(hook)
        if len(hooks) < 3:
            raise StorageTransientError(verb="read", uri="the API", reason="it is restarted")
        return await real(hook)

    monkeypatch.setattr(CheckpointHook, "asettings", flaky)
    played.plays = [reports(ExitCode.FINISHED, "finished", "all sources have ended")]
    assert event_of(trigger)["code"] == "FINISHED"
    assert len(hooks) == 3


def test_a_job_with_a_failed_subtask_task_is_abandoned(
    trigger: JobMasterTrigger, played: PlayedMasters, task_states: FakeTaskStates, orders: Journal
) -> None:
    coordinated(orders)
    task_states.states = {"orders.subtask_2": "failed"}

    def waits(on_status: Any) -> ExitCode:
        assert played.has_report.wait(30)
        return ExitCode.FAILED

    played.plays = [waits]
    event = event_of(trigger)
    assert "rows/0 (failed)" in event["abandoned"]
    assert played.abandoned == [event["abandoned"]]

    def runs_on(on_status: Any) -> ExitCode:
        assert not played.has_report.wait(0.3)
        return ExitCode.FINISHED

    looks, played.has_unassigned, played.plays = task_states.looks, False, [runs_on]
    played.has_report.clear()
    assert event_of(trigger)["abandoned"] is None
    assert task_states.looks == looks


@pytest.mark.parametrize(
    ("status", "code"),
    [("FINISHED", "FINISHED"), ("STOPPED", "FINISHED"), ("RESTARTING", "FAILED"), ("FAILED", "TERMINAL")],
)
def test_the_next_triggerer_reports_an_end_that_is_in_the_journal(
    trigger: JobMasterTrigger, played: PlayedMasters, orders: Journal, status: str, code: str
) -> None:
    ended(coordinated(orders), status)
    event = event_of(trigger)
    assert event["code"] == code
    assert status in event["message"]
    assert played.runs == []


def test_an_end_during_the_take_over_is_reported(
    trigger: JobMasterTrigger, played: PlayedMasters, orders: Journal
) -> None:
    def refused(on_status: Any) -> ExitCode:
        ended(coordinated(orders), "FINISHED")
        return reports(ExitCode.REFUSED, "refused", "job is not prepared")(on_status)

    played.plays = [refused]
    assert event_of(trigger)["code"] == "FINISHED"


def test_the_end_under_another_jobmaster_is_not_the_end_of_the_task(
    trigger: JobMasterTrigger, played: PlayedMasters, orders: Journal
) -> None:
    ended(coordinated(orders, "by hand"), "STOPPED")
    played.plays = [reports(ExitCode.REFUSED, "refused", "job is not prepared")]
    assert event_of(trigger)["code"] == "REFUSED"


def test_a_failed_jobmaster_of_a_live_job_restarts_in_the_same_triggerer(
    trigger: JobMasterTrigger, played: PlayedMasters, orders: Journal
) -> None:
    coordinated(orders)
    played.plays = [
        *[reports(ExitCode.FAILED, "failed", "the bucket is away")] * 3,
        reports(ExitCode.FINISHED, "finished", "all sources have ended"),
    ]
    assert event_of(trigger)["code"] == "FINISHED"
    assert len(played.runs) == 4


def test_a_trigger_whose_watch_fails_abandons_its_jobmaster(
    trigger: JobMasterTrigger, played: PlayedMasters, task_states: FakeTaskStates, orders: Journal
) -> None:
    coordinated(orders)

    def breaks(number: int) -> None:
        raise ValueError("an Airflow that nobody has seen")

    def waits(on_status: Any) -> ExitCode:
        assert played.is_abandoned.wait(30)
        task_states.on_look = lambda number: None
        return ExitCode.FAILED

    task_states.on_look = breaks
    played.plays = [waits, reports(ExitCode.FINISHED, "finished", "all sources have ended")]
    assert event_of(trigger)["code"] == "FINISHED"


# ---- two triggers


def fenced(orders: Journal, name: str = ATTEMPT) -> Play:
    """Return a play in which another JobMaster claims the job under that name and fences this one."""

    def play(on_status: Any) -> ExitCode:
        coordinated(orders, name)
        on_status(StatusLine("fenced", f"epoch {orders.state.epoch} has the job"))
        return ExitCode.FENCED

    return play


def write_heartbeat(root: Storage, orders: Journal, beat: int) -> None:
    path = f"{JOB_ID}/deployments/{orders.state.deployment:04d}/master-{orders.state.epoch:04d}.json"
    write_outbox(root, path, Outbox(Worker("there"), beat))


def test_the_jobmaster_has_the_timing_that_the_deferral_contains(
    root: Storage, task_states: FakeTaskStates, played: PlayedMasters, orders: Journal
) -> None:
    trigger = built(root, timing={**TIMING, "poll": 0.5, "lost_after": 9.0})
    played.plays = [reports(ExitCode.FINISHED, "finished", "all sources have ended")]
    event_of(trigger)
    assert [(run.timing.poll, run.timing.lost_after, run.timing.rest) for run in played.runs] == [(0.5, 9.0, 1.0)]


def test_a_fenced_trigger_stands_by_and_reports_the_end_of_the_job(
    trigger: JobMasterTrigger, played: PlayedMasters, orders: Journal, root: Storage
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        write_heartbeat(root, orders, len(slept))
        if len(slept) == 200:
            ended(orders, "FINISHED")

    trigger.timing = {**TIMING, "lost_after": 0.05}
    trigger._sleep = sleep  # type: ignore[assignment]
    played.plays = [fenced(orders)]
    event = event_of(trigger)
    assert (event["code"], event["kind"]) == ("FINISHED", "finished")
    assert len(played.runs) == 1
    assert len(slept) > 200


def test_a_fenced_trigger_takes_over_from_a_silent_successor(
    trigger: JobMasterTrigger, played: PlayedMasters, orders: Journal, root: Storage
) -> None:
    trigger.timing = {**TIMING, "lost_after": 0.05}
    played.plays = [fenced(orders), reports(ExitCode.FINISHED, "finished", "all sources have ended")]
    assert event_of(trigger)["message"] == "all sources have ended"
    assert len(played.runs) == 2


@pytest.mark.parametrize("name", [f"{JOB_ID}~t2.coordinate", "by hand"])
def test_a_trigger_fenced_by_a_foreign_attempt_reports_fenced(
    trigger: JobMasterTrigger, played: PlayedMasters, orders: Journal, name: str
) -> None:
    played.plays = [fenced(orders, name)]
    event = event_of(trigger)
    assert (event["code"], event["kind"], event["message"]) == ("FENCED", "fenced", "epoch 2 has the job")


def test_a_trigger_fenced_by_an_earlier_try_stands_by_and_resumes(
    root: Storage, task_states: FakeTaskStates, played: PlayedMasters, orders: Journal
) -> None:
    second = built(root, attempt=f"{JOB_ID}~t2.coordinate")
    second.timing = {**TIMING, "lost_after": 0.05}
    played.plays = [fenced(orders, ATTEMPT), reports(ExitCode.FINISHED, "finished", "all sources have ended")]
    assert event_of(second)["message"] == "all sources have ended"


def test_one_that_stands_by_opens_the_storage_outside_the_event_loop(
    trigger: JobMasterTrigger, played: PlayedMasters, orders: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open an object store may take seconds, in which no other trigger would run."""
    threads: list[str] = []
    real = CheckpointHook.storage

    def storage(hook: CheckpointHook) -> Storage:
        threads.append(threading.current_thread().name)
        return real(hook)

    monkeypatch.setattr(CheckpointHook, "storage", storage)
    played.plays = [fenced(orders, "by hand")]
    event_of(trigger)
    assert threads
    assert threading.main_thread().name not in threads


@pytest.mark.parametrize("has_settings", [True, False])
def test_an_error_that_ends_the_wait_shows_no_secret(
    trigger: JobMasterTrigger, played: PlayedMasters, monkeypatch: pytest.MonkeyPatch, has_settings: bool
) -> None:
    text = "s3://user:t0psecret@b is refused" if not has_settings else "the key t0psecret is refused"
    options = {"host": "file:///tmp", "extra": json.dumps({"storage_options": {"secret": "t0psecret"}})}
    monkeypatch.setenv("AIRFLOW_CONN_CKPT_DEFAULT", json.dumps({"conn_type": "ckpt", **options}))

    def refused(*_: Any) -> Any:
        raise InvalidInputError("{text}", text=text)

    monkeypatch.setattr(CheckpointHook, "client" if has_settings else "asettings", refused)
    message = event_of(trigger)["message"]
    assert "is refused" in message
    assert "t0psecret" not in message


def test_a_standby_trigger_claims_nothing_when_it_cannot_poll(
    trigger: JobMasterTrigger, played: PlayedMasters, orders: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []
    real = LeaderMonitor.poll

    def look(watch: Any) -> Any:
        looks.append(watch)
        if len(looks) < 5:
            raise StorageTransientError(verb="read", uri="the root", reason="it is away")
        ended(orders, "STOPPED")
        return real(watch)

    monkeypatch.setattr(LeaderMonitor, "poll", look)
    played.plays = [fenced(orders)]
    assert event_of(trigger)["code"] == "FINISHED"
    assert len(played.runs) == 1


# ---- cancelled by Airflow


async def cancelled(trigger: JobMasterTrigger, played: PlayedMasters, *, by_user: bool) -> None:
    """Cancel the run as Airflow does. Airflow calls ``on_kill`` if it takes the cancellation for a user's action."""
    running = asyncio.ensure_future(run_to_first_event(trigger))
    while not played.runs:
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    if by_user:
        await trigger.on_kill()
    await trigger.cleanup()


async def run_to_first_event(trigger: JobMasterTrigger) -> None:
    async for _ in trigger.run():
        return


def stopping(orders: Journal, root: Storage, played: PlayedMasters) -> Play:
    """Return a play that claims the job, and ends when it is asked to stop or is abandoned."""

    def play(on_status: Any) -> ExitCode:
        coordinated(orders)

        def is_ending() -> bool:
            return bool(pending_requests(root, JOB_ID, orders.state.epoch, {})) or played.is_abandoned.is_set()

        wait_until(is_ending, "a request")
        return ExitCode.FINISHED

    return play


@pytest.mark.parametrize(
    ("state", "stops"),
    [("failed", True), ("success", True), (None, False), ("deferred", False), ("running", False), ("queued", False)],
)
def test_only_a_killed_task_that_has_ended_stops_its_job(
    trigger: JobMasterTrigger,
    played: PlayedMasters,
    orders: Journal,
    root: Storage,
    monkeypatch: pytest.MonkeyPatch,
    state: str | None,
    stops: bool,
) -> None:
    answer = {"r1": {"orders.coordinate": state}}
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(lambda **_: answer))
    played.plays = [stopping(orders, root, played)]
    asyncio.run(cancelled(trigger, played, by_user=True))
    requests = pending_requests(root, JOB_ID, orders.refresh().epoch, {})
    assert [*map(asks_to_exit, requests)] == ([True] if stops else [])
    assert played.is_abandoned.is_set() is not stops, "one that stops its job takes its savepoint first"


def test_a_triggerer_that_shuts_down_leaves_the_job_to_the_next_one(
    trigger: JobMasterTrigger, played: PlayedMasters, orders: Journal, root: Storage
) -> None:
    played.plays = [stopping(orders, root, played)]
    asyncio.run(cancelled(trigger, played, by_user=False))
    assert played.is_abandoned.is_set()
    assert pending_requests(root, JOB_ID, orders.refresh().epoch, {}) == []
