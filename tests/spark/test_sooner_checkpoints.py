"""Micro-batches that bring a checkpoint forward: they come from live sources with a barrier from the JobMaster."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.coordinator.checkpoints.checkpoint_cycle import CheckpointCycle
from tests.spark.harness import World
from tests.spark.jobs import mixed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("chain", [True, False])
def test_the_coordinator_gets_reports_of_batches_of_live_sources(
    world: World, monkeypatch: pytest.MonkeyPatch, chain: bool
) -> None:
    """History is a separate query if ``chain`` is False. The other one gets its barrier through the partition."""
    noted: list[float] = []
    monkeypatch.setattr(CheckpointCycle, "note_published", lambda self, subtask, now: noted.append(now))
    expected = world.put_ids("history", 3, 5) | world.put_ids("live", 2, 4, 1000)
    run = world.run(mixed(world, chain=chain), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert bool(noted) is chain
