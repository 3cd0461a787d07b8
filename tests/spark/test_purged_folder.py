"""A purged Spark folder (R6): a job resumes and restores in it."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.jobmaster.retention import retention
from tests.spark.harness import World
from tests.spark.jobs import mixed

pytestmark = pytest.mark.slow


def test_r6_a_job_resumes_and_restores_in_a_purged_folder(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PURGE_AT", 1)
    monkeypatch.setattr(retention, "TRUNCATE_AT", 1)
    expected = world.put_ids("history", 1, 2) | world.put_ids("live", 46, 2, 1000)
    stop = world.ask("stop", lambda: world.released_count() >= len(expected))
    assert world.run(mixed(world), stop, retained_checkpoints=1).status == "STOPPED"
    (folder,) = [path for path in world.root.glob("job/vertices/doubled/0/spark/*") if path.is_dir()]
    assert not (folder / "offsets/0").exists()
    assert not (folder / "sources/live/0").exists()
    path = f"{world.root}/{world.job_id}/checkpoints/chk-{world.state().last_completed}"
    expected |= world.put_ids("live", 1, 2, 2000)
    run = world.run(mixed(world), world.drain_at(len(expected)), restore=path)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
