"""Work that a resuming driver does not repeat."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field

import pytest

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.jobmaster.retention.collector import clean_up
from airflow_provider_ckpt.spark.main import run_job
from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.subtasklog.records import Batch
from tests.spark.faults import HookedStorage
from tests.spark.harness import World
from tests.spark.jobs import bounded, mixed

pytestmark = pytest.mark.slow


@dataclass
class Watched(World):
    """A World that records the folders for which the job's functions ask."""

    asked: list[str] = field(default_factory=list)

    def path(self, name: str) -> str:
        self.asked.append(name)
        return super().path(name)

    def history_is_over(self) -> bool:
        state = self.state()
        return "history" in state.finished_operators() and any(state.dropped.values())


@pytest.mark.parametrize("chain", [True, False], ids=["inline", "own vertex"])
def test_a_retry_calls_no_function_of_a_finished_source(world: World, chain: bool) -> None:
    here = Watched(world.base)
    expected = here.put_ids("history", 2, 2) | here.put_ids("live", 2, 2, 1000)
    stopped = here.run(mixed(here, chain=chain), here.ask("stop", here.history_is_over))
    assert stopped.status == "STOPPED"
    shutil.rmtree(here.base / "history")
    here.asked.clear()
    expected |= here.put_ids("live", 1, 2, 2000)
    drained = here.run(mixed(here, chain=chain), here.drain_at(len(expected)))
    assert (drained.status, drained.cause) == ("FINISHED", None)
    assert "live" in here.asked
    assert "history" not in here.asked
    assert here.released_ids() == sorted(expected)


def test_the_position_on_a_dropped_edge_survives_a_restart(world: World) -> None:
    """Otherwise the producer's log could never be truncated."""
    here = Watched(world.base)
    expected = here.put_ids("history", 2, 2) | here.put_ids("live", 2, 2, 1000)
    here.run(mixed(here, chain=False), here.ask("stop", here.history_is_over))
    expected |= here.put_ids("live", 1, 2, 2000)
    here.run(mixed(here, chain=False), here.drain_at(len(expected)))
    batches = [record for _, record in here.records("doubled") if isinstance(record, Batch)]
    last_of_history = max(number for number, record in here.records("history") if isinstance(record, Batch))
    assert batches[-1].inputs["history__doubled"] > last_of_history


def test_the_next_driver_cleans_up_after_a_finished_one_that_crashed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put_ids("history", 2, 2)
    monkeypatch.setattr("airflow_provider_ckpt.spark.run_attempt.clean_up", lambda *_: None)
    assert world.run(bounded(world, chain=False), mode="streaming").status == "FINISHED"
    assert any("/spark/" in path for path in world.everything_under_root())
    job_file = world.base / "again.py"
    job_file.write_text(
        "from pathlib import Path\n"
        "from tests.spark.harness import World\n"
        "from tests.spark.jobs import bounded\n"
        f"job = bounded(World(Path({str(world.base)!r})), chain=False)\n"
    )
    options = world.options(job=f"{job_file}:job")
    assert run_job(RunRequest(options, Location(options.root), lambda line: None)) == 0
    left = world.everything_under_root()
    assert not [path for path in left if "/spark/" in path or "/partition/" in path]
    assert world.released_ids() == [*range(4)]


def test_the_clean_up_skips_a_removed_sink(world: World) -> None:
    world.put_ids("history", 1, 2)
    job: Job = bounded(world)
    assert world.run(job).status == "FINISHED"
    state = world.state()
    assert state.plan is not None
    clean_up(world.storage, world.job_id, state.plan.graph, {})
    assert world.released_ids() == [0, 1]


def test_a_failed_clean_up_does_not_fail_a_finished_job(world: World) -> None:
    world.put_ids("history", 2, 2)

    def keep_it_all(verb: str, path: str) -> None:
        if verb == "delete_tree" and world.state().status == "FINISHED":
            raise StorageTransientError(verb=verb, uri=path, reason="Input/output error")

    storage = HookedStorage(world.storage, keep_it_all)
    run = world.run(bounded(world, chain=False), storage=storage, mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    warned = [line["message"] for line in run.lines if line["kind"] == "warning"]
    assert len(warned) == 1
    assert "deleting what the job no longer needs failed" in warned[0]
    assert "Input/output error" in warned[0]
    assert any("/spark/" in path for path in world.everything_under_root())
