"""A checkpoint that is completed and not released when its driver dies. A process without Spark releases it (R16)."""

from __future__ import annotations

import socket

import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.progress import Snapshot
from tests.spark.harness import Line, World
from tests.spark.jobs import mixed

pytestmark = [pytest.mark.slow, pytest.mark.spark]


class DiedError(Exception):
    """The death of a driver in its loop."""


def test_r16_a_release_outside_a_run_shows_rows_of_a_dead_driver_once(world: World) -> None:
    expected = world.put_ids("history", 2, 3) | world.put_ids("live", 2, 2, start=100)

    def die(line: Line) -> None:
        covers = any(snapshot.batch_id is not None for snapshot in _snapshots(world))
        if line["kind"] == "checkpoint" and covers:
            raise DiedError

    with pytest.raises(DiedError), pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "worker-7")  # this live process must not be found
        world.run(mixed(world), die)
    died = world.state()
    assert (died.status, died.last_released < died.last_completed) == (JobStatus.RESTARTING, True)
    staged = world.released_count()

    client = JobClient(world.storage, world.job_id)
    events = client.release(mixed(world))
    assert events[-1].checkpoint == died.last_completed
    assert world.released_count() == staged + sum(event.sinks["out"]["rows"] for event in events) > staged
    assert client.state().status is JobStatus.RESTARTING

    run = world.run(mixed(world), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def _snapshots(world: World) -> list[Snapshot]:
    state = world.state()
    return [*state.checkpoints[state.last_completed].subtasks.values()] if state.checkpoints else []
