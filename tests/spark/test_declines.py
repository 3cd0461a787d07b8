"""Barriers that the storage refuses and the task therefore declines (R17).

The coordinator decides about the run by ``tolerable_failed_checkpoints``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.records import Barrier
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.harness import World
from tests.spark.jobs import bounded, depths, mixed

pytestmark = pytest.mark.slow


class RefusesBarriers(WrappedStorage):
    """A storage on which ``count`` appends of a barrier to the log of ``vertex`` fail.

    They fail from checkpoint ``first`` of a run on, and only if ``when`` is true. ``lands``: whether the barrier is
    written although the append fails.
    """

    def __init__(
        self,
        inner: Storage,
        vertex: str,
        count: int,
        *,
        lands: bool = False,
        first: int = 2,
        when: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(inner)
        self.vertex, self.lands, self.first = vertex, lands, first
        self.left = count * 3  # the log appends at most three times
        self.when = when

    def create(self, path: str, data: bytes) -> None:
        mine = f"/vertices/{self.vertex}/" in path and b'"type": "Barrier"' in data
        if mine and self.left and f'"checkpoint": {self.first - 1}'.encode() not in data and self.when():
            self.left -= 1
            if self.lands and self.left % 3 == 0:
                self.inner.create(path, data)
            raise StorageTransientError(verb="create", uri=self.full_uri(path), reason="503")
        self.inner.create(path, data)


def _barriers(world: World, vertex: str) -> list[int]:
    barriers = [(number, record) for number, record in world.records(vertex) if isinstance(record, Barrier)]
    assert all(record.snapshot.position == number for number, record in barriers)
    return [record.checkpoint for _, record in barriers]


@pytest.mark.parametrize("lands", [False, True], ids=["not landed", "landed"])
def test_r17_a_declined_barrier_aborts_its_checkpoint_and_the_run_continues(world: World, lands: bool) -> None:
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 3, 2, 1000)
    storage = RefusesBarriers(world.storage, "doubled", 1, lands=lands)
    run = world.run(
        mixed(world),
        world.ask("drain", lambda: bool(world.state().aborted) and world.released_count() >= len(expected)),
        storage=storage,
        tolerable_failed_checkpoints=1,
    )
    assert (run.status, run.cause) == ("FINISHED", None)
    assert set(world.state().aborted.values()) == {"IO_EXCEPTION"}
    assert world.released_ids() == sorted(expected)
    barriers = _barriers(world, "doubled")
    assert barriers == sorted(set(barriers))


def test_r17_more_declines_in_a_row_than_tolerated_end_the_run(world: World) -> None:
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 3, 2, 1000)
    # only when all is published, because a later batch has to settle the barrier first
    storage = RefusesBarriers(world.storage, "doubled", 2, when=lambda: world.released_count() == len(expected))
    run = world.run(mixed(world), storage=storage, tolerable_failed_checkpoints=1)
    assert run.status == "RESTARTING"
    assert "2 checkpoints failed in a row (1 tolerated), last: the barrier could not be written" in (run.cause or "")
    assert "503" in (run.cause or "")


def test_r10_a_consumer_passes_the_barrier_of_a_declined_checkpoint(world: World) -> None:
    """The barrier that failed is appended before the next one: consumers see both."""
    expected = world.put_ids("history", 4, 2) | world.put_ids("live", 3, 2, 1000)
    run = world.run(
        depths(world),
        world.ask("drain", lambda: bool(world.state().aborted) and world.released_count() >= 2),
        storage=RefusesBarriers(world.storage, "merged", 1),
        tolerable_failed_checkpoints=3,
    )
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_a_declined_barrier_of_a_batch_job_is_retried(world: World) -> None:
    expected = world.put_ids("history", 2, 2)
    run = world.run(
        bounded(world),
        mode="batch",
        storage=RefusesBarriers(world.storage, "doubled", 1, first=1),
        tolerable_failed_checkpoints=1,
    )
    assert (run.status, run.cause) == ("FINISHED", None)
    assert set(world.state().aborted.values()) == {"IO_EXCEPTION"}
    assert world.released_ids() == sorted(expected)


class Overtaken(WrappedStorage):
    def create(self, path: str, data: bytes) -> None:
        if "/vertices/" in path and b'"type": "Barrier"' in data:
            raise LogFencedError(log=path, attempt=AttemptId(2, 0, "another"), epoch=2)
        self.inner.create(path, data)


def test_r3_a_fence_is_not_a_decline(world: World) -> None:
    world.put_ids("history", 1, 2)
    world.put_ids("live", 1, 2, 1000)
    with pytest.raises(LogFencedError):
        world.run(mixed(world), storage=Overtaken(world.storage), tolerable_failed_checkpoints=50)
