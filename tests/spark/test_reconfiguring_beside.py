"""Trials and repartitioned state during takeovers, commands and unpublished batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from airflow_provider_ckpt import collect_garbage
from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.errors import OvertakenError
from airflow_provider_ckpt.jobmaster.errors import JobRunsError
from airflow_provider_ckpt.journal.events import Reconfigured
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.spark.task.streaming import query_dry_run
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.counting_job import UserScript, check_counting, committed_folder, counting, state_partitions
from tests.spark.faults import HookedStorage
from tests.spark.harness import World
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def repartition(parts: int) -> Reconfiguration:
    return Reconfiguration().assign_workload("counts", state_partitions=parts)


def during_copy(act: Callable[[], None]) -> Callable[[str, str], None]:
    """Return a hook that acts once, in the trial's thread, when the copy for a trial is half complete."""
    seen: list[str] = []

    def hook(verb: str, path: str) -> None:
        if "/counts/0/trial/" in path and verb != "delete_tree":
            seen.append(path)
            if len(seen) == 4:
                act()

    return hook


def test_r8_a_driver_fenced_during_a_trial_does_not_harm_its_successor(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_dry_run, "LAST_TRIAL", 300.0)  # the test sees all that it does after the takeover
    world.put_ids("live", 1, 10)
    outcomes: list[RequestOutcome] = []
    successors: list[str] = []

    def second(script: UserScript) -> None:
        wait_until(
            lambda: (state := script.client.read_state()).epoch == 2 and state.status == "RUNNING", "the second driver"
        )
        script.put(20)
        outcomes.append(script.change(repartition(3)))
        script.put(30)

    def succeed() -> None:
        with UserScript(world, second):
            successors.append(world.run(counting(world)).status)

    def first(script: UserScript) -> None:
        script.put(10)
        script.client.reconfigure(repartition(5))

    storage = HookedStorage(world.storage, during_copy(succeed))
    with pytest.raises(OvertakenError), UserScript(world, first, end="nothing"):
        world.run(counting(world), storage=storage)
    assert (successors, [outcome.result.value for outcome in outcomes]) == (["STOPPED"], ["completed"]), outcomes
    assert world.state().settings["counts"].state_partitions == 3
    with UserScript(world, lambda script: script.put(40)):
        again = world.run(counting(world))
    assert again.status == "STOPPED", again.cause
    check_counting(world, 50)
    assert state_partitions(world) == 3


def test_commands_do_not_disturb_a_trial(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.put_ids("live", 1, 10)
    begun, gate = threading.Event(), threading.Event()
    outcomes: list[RequestOutcome] = []

    def hold() -> None:
        begun.set()
        assert gate.wait(120)

    def work(script: UserScript) -> None:
        script.put(10)
        asked = script.client.reconfigure(repartition(3))
        try:
            wait_until(begun.is_set, "a trial")
            assert main(["show", world.job_id, "--root", str(world.root)]) == 0
            with suppress(JobRunsError):  # there may be nothing to release at that moment
                script.client.release(counting(world))
            report = collect_garbage(str(world.root), world.job_id, delete=True)
            assert not [item for job in report.jobs for item in job.garbage if "/trial/" in item.path]
        finally:
            gate.set()
        outcome = script.client.answer(asked, 60).outcome
        assert outcome is not None
        outcomes.append(outcome)
        script.put(20)

    with UserScript(world, work):
        run = world.run(counting(world), storage=HookedStorage(world.storage, during_copy(hold)))
    assert (run.status, [outcome.result.value for outcome in outcomes]) == ("STOPPED", ["completed"]), (
        run.cause,
        outcomes,
    )
    check_counting(world, 30)
    assert state_partitions(world) == 3
    assert "RUNNING" in capsys.readouterr().out


class Unpublished(WrappedStorage):
    """A storage that refuses batches of ``counts`` once ``dead`` is set."""

    def __init__(self, inner: Storage, dead: threading.Event) -> None:
        super().__init__(inner)
        self.dead = dead

    def create(self, path: str, data: bytes) -> None:
        if self.dead.is_set() and "/counts/0/log/" in path and b'"Batch"' in data:
            raise StorageTransientError(verb="create", uri=path, reason="the driver is dead")
        super().create(path, data)

    def _wrap(self, inner: Storage) -> Unpublished:
        return Unpublished(inner, self.dead)


def test_r1_an_unpublished_batch_is_published_before_a_repartition(world: World) -> None:
    world.put_ids("live", 1, 10)
    dead = threading.Event()

    def work(script: UserScript) -> None:
        script.put(10)
        dead.set()
        world.put_ids("live", 1, 10, 20)

    with UserScript(world, work, end="nothing"):
        run = world.run(counting(world), storage=Unpublished(world.storage, dead))
    assert run.status == "RESTARTING"
    published = [record.batch_id for _, record in world.records("counts") if isinstance(record, Batch)]
    committed = committed_folder(world).newest_commit()
    assert committed is not None
    assert committed > published[-1]
    journal = Journal(world.storage, world.job_id)
    journal.claim("decides", Worker(), time.time())
    journal.write(Reconfigured(1, {"counts": VertexSettings(state_partitions=5)}, time.time()))
    with UserScript(world, lambda script: script.put(30)):
        again = world.run(counting(world))
    assert again.status == "STOPPED", again.cause
    check_counting(world, 40)
    assert state_partitions(world) == 5
    batches = [record.batch_id for _, record in world.records("counts") if isinstance(record, Batch)]
    assert committed in batches
