"""Reconfigurations during driver deaths, other repartitions, ends of sources and failures of functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.errors import UnfitLogicError
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.spark.task.streaming import query_dry_run
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from tests.spark.counting_job import (
    UserScript,
    check_counting,
    committed_folder,
    counting,
    counting_version,
    state_partitions,
)
from tests.spark.faults import HookedStorage
from tests.spark.harness import World
from tests.spark.jobs import mixed, windows
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


class HookedLists(HookedStorage):
    """A storage that calls ``hook`` before a folder is listed, too."""

    def list(self, path: str) -> list[str]:
        self.hook("list", path)
        return super().list(path)

    def _wrap(self, inner: Storage) -> HookedLists:
        return HookedLists(inner, self.hook, self.verbs)


def dies_at(world: World, matches: Callable[[str, str], bool]) -> HookedStorage:
    gone: list[str] = []

    def hook(verb: str, path: str) -> None:
        if gone or matches(verb, path):
            gone.append(path)
            raise StorageTransientError(verb=verb, uri=path, reason="the driver is dead")

    return HookedLists(world.storage, hook)


@pytest.mark.parametrize("moment", ["before the cut", "in the cut", "behind the cut", "behind the cut, restored"])
def test_r21_the_next_driver_repeats_a_repartition_after_a_crash(world: World, moment: str) -> None:
    world.put_ids("live", 2, 10)

    def decided() -> bool:
        return world.state().reconfigured == 1

    def matches(verb: str, path: str) -> bool:
        if "/counts/" not in path:
            return False
        if moment == "before the cut":
            return verb == "replace" and "/spark/" in path and "/offsets/" in path and decided()
        # the last verb of an attempt before it starts its query
        return verb == "list" and path.endswith("/trial") and decided()

    def work(script: UserScript) -> None:
        script.put(20)
        script.client.reconfigure(Reconfiguration().assign_workload("counts", state_partitions=5))

    with pytest.raises(CkptError), UserScript(world, work, end="nothing"):
        world.run(counting(world), storage=dies_at(world, matches), restart_attempts=0)
    assert world.state().reconfigured == 1
    folder = committed_folder(world)
    if moment == "in the cut":
        cut = folder.newest_commit()
        assert folder.state_partitions() == 5
        folder.storage.delete(f"{folder.path}/commits/{cut}")
        crc = f"{folder.path}/commits/.{cut}.crc"
        if folder.storage.exists(crc):
            folder.storage.delete(crc)
    given: dict[str, Any] = {"restore": "latest"} if moment.endswith("restored") else {}
    with UserScript(world, lambda script: script.put(30)):
        again = world.run(counting(world), **given)
    assert again.status == "STOPPED", again.cause
    check_counting(world, 40)
    assert state_partitions(world) == 5
    assert not list(world.root.rglob("trial/*"))


def test_state_is_repartitioned_several_times_without_new_rows(world: World) -> None:
    world.put_ids("live", 2, 10)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        script.put(20)
        outcomes.append(script.change(Reconfiguration().assign_workload("counts", state_partitions=5)))
        outcomes.append(script.change(Reconfiguration().assign_workload("counts", state_partitions=3)))
        outcomes.append(script.change(Reconfiguration().assign_workload("counts", state_partitions=4)))

    with UserScript(world, work):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    assert [outcome.result.value for outcome in outcomes] == ["completed"] * 3
    with UserScript(world, lambda script: script.put(30)):
        again = world.run(counting(world))
    assert again.status == "STOPPED", again.cause
    check_counting(world, 40)
    assert state_partitions(world) == 4


def test_windows_with_repartitioned_state_fire_at_a_drain(world: World) -> None:
    world.put_ids("history", 2, 10)
    world.put_ids("live", 1, 10, 100)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        wait_until(lambda: len(world.state().dropped) > 0, "the drop of history")
        outcomes.append(script.change(Reconfiguration().assign_workload("counts", state_partitions=3)))
        world.put_ids("live", 1, 10, 110)
        wait_until(lambda: world.read_up_to("counts", "live") == 1, "read")
        outcomes.append(script.change(Reconfiguration().assign_workload("counts", state_partitions=2)))
        world.request("drain")

    with UserScript(world, work, end="nothing"):
        run = world.run(windows(world))
    assert run.status == "FINISHED", run.cause
    assert world.released_ids() == [0, 10, 100, 110]
    assert not list(world.root.rglob("trial")), "a finished job leaves no trial, not even a folder"


def test_history_is_read_once_while_its_limits_change(world: World) -> None:
    world.put_ids("history", 20, 5)
    world.put_ids("live", 2, 10, 1000)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        wait_until(lambda: world.released_count() > 10, "rows")
        outcomes.append(script.change(Reconfiguration().assign_workload("history", max_bytes_per_batch=3000)))
        outcomes.append(script.change(Reconfiguration().assign_workload("history", max_files_per_batch=3)))
        wait_until(lambda: world.state().dropped, "the drop of history")
        outcomes.append(script.change(Reconfiguration().assign_workload("doubled", max_files_per_batch=4)))
        world.put_ids("live", 2, 10, 1020)
        wait_until(lambda: world.released_count() >= 140, "rows")
        world.request("drain")

    with UserScript(world, work, end="nothing"):
        run = world.run(mixed(world))
    assert run.status == "FINISHED", run.cause
    assert world.released_ids() == [*range(100), *range(1000, 1040)]


def test_a_failing_function_is_named_and_can_be_mended_in_its_file(world: World) -> None:
    world.put_ids("live", 1, 10)
    bad = counting_version(
        world, "bad", marked='return rows.withColumn("by", F.raise_error(F.lit("bad row")).cast("string"))'
    )

    def work(script: UserScript) -> None:
        script.put(10)
        script.change(Reconfiguration().assign_execution_logic("marked", bad))
        world.put_ids("live", 1, 10, 20)

    with UserScript(world, work, end="nothing"):
        run = world.run(counting(world), restart_attempts=1, restart_delay=0.1)
    assert run.status == "RESTARTING"
    Path(bad.removesuffix(":job")).unlink()
    with pytest.raises(UnfitLogicError, match="cannot be loaded, and marked was given it while the job ran") as refused:
        world.run(counting(world))
    way_out = f"ckpt reconfigure {world.job_id} marked.logic=declared --next-run --root {world.root}"
    assert str(refused.value).endswith(f"{way_out} (marked.logic={bad} for the current file)")
    counting_version(world, "bad")
    again = Reconfiguration().assign_execution_logic("marked", bad)
    JobClient(str(world.root), world.job_id).assign_for_next_run(again)
    with UserScript(world, lambda script: script.put(30)):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    check_counting(world, 40)


def test_a_repartition_holds_against_later_session_settings(world: World, spark: SparkSession) -> None:
    world.put_ids("live", 1, 10)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(script.change(Reconfiguration().assign_workload("counts", state_partitions=5)))

    with UserScript(world, work):
        world.run(counting(world))
    before = str(spark.conf.get("spark.sql.shuffle.partitions"))
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    try:
        with UserScript(world, lambda script: script.put(20)):
            again = world.run(counting(world))
        assert again.status == "STOPPED", again.cause
        assert state_partitions(world) == 5

        def more(script: UserScript) -> None:
            outcomes.append(script.change(Reconfiguration().assign_workload("counts", state_partitions=7)))
            script.put(30)

        with UserScript(world, more):
            again = world.run(counting(world))
        assert again.status == "STOPPED", again.cause
        assert state_partitions(world) == 7
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    check_counting(world, 40)


def test_a_function_that_never_returns_does_not_stop_the_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_dry_run, "LAST_TRIAL", 0.2)
    gate, ended, outcomes = (
        Path(world.path("gate")) / "open",
        Path(world.path("gate")) / "ended",
        list[RequestOutcome](),
    )
    waits = f"import os, time\n                while not os.path.exists('{gate}'): time.sleep(0.05)\n"
    waits += '                return rows.withColumn("by", F.lit("two"))'
    world.put_ids("live", 1, 10)

    def work(script: UserScript) -> None:
        script.put(10)
        reference = counting_version(world, "v2", marked=waits)
        outcomes.append(script.change(Reconfiguration().assign_execution_logic("marked", reference)))
        script.put(20)
        script.client.stop()
        try:
            wait_until(ended.exists, "the end of the run")
        finally:
            gate.touch()

    with UserScript(world, work, end="nothing"):
        run = world.run(counting(world), checkpoint_timeout=3)
        ended.touch()
    assert run.status == "STOPPED", run.cause
    assert "had not prepared its new query within 3 s" in outcomes[0].detail
    check_counting(world, 30)


def test_a_hanging_trial_refuses_the_next_assignment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_dry_run, "LAST_TRIAL", 0.2)
    gate, outcomes = Path(world.path("gate")) / "open", list[RequestOutcome]()
    waits = f"import os, time\n                while not os.path.exists('{gate}'): time.sleep(0.05)\n"
    waits += '                return rows.withColumn("by", F.lit("two"))'
    world.put_ids("live", 1, 10)

    def work(script: UserScript) -> None:
        script.put(10)
        try:
            for name, marked in (("v2", waits), ("v3", "")):
                change = Reconfiguration().assign_execution_logic(
                    "marked", counting_version(world, name, marked=marked)
                )
                outcomes.append(script.change(change))
        finally:
            gate.touch()
        wait_until(lambda: script.change(change).is_carried_out, "a second change")
        script.put(20)

    with UserScript(world, work):
        run = world.run(counting(world), checkpoint_timeout=3)
    assert run.status == "STOPPED", run.cause
    assert "had not prepared its new query within 3 s" in outcomes[0].detail
    assert "an earlier trial has not ended" in outcomes[1].detail
    check_counting(world, 30)
