"""Staged output of attempts that later attempts replace under one driver, which may run for months."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ckpt import Job
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sinks.sink import attempt_of
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.harness import World
from tests.spark.jobs import mixed, stamped
from tests.spark.split_jobs import sink_of_splits, splits
from tests.support.books import books

pytestmark = pytest.mark.slow

KINDS: dict[str, tuple[Callable[[World], Job], str, str, dict[str, Any]]] = {
    "query": (mixed, "doubled", "out", {}),
    "splits": (lambda world: sink_of_splits(world, splits(6), parallelism=1), "parts", "raw", {}),
    "batch": (lambda world: stamped(world, 1), "stamps", "out", {"mode": "batch"}),
}


class FailsAfterStage(WrappedStorage):
    """A storage on which each attempt of a vertex but the third fails after it has staged a batch.

    Such an attempt can neither prepare nor publish. ``look``: called before the third attempt publishes.
    """

    def __init__(self, inner: Storage, vertex: str, look: Callable[[], None], opened: list[str] | None = None) -> None:
        super().__init__(inner)
        self.vertex, self.look, self.opened = vertex, look, [] if opened is None else opened

    def create(self, path: str, data: bytes) -> None:
        if f"/{self.vertex}/0/log/" in path:
            if b'"Open"' in data:
                self.opened.append(path)
            if b'"Batch"' in data:
                if len(self.opened) < 3:
                    raise StorageTransientError(verb="create", uri=path, reason="Input/output error")
                self.look()
        super().create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        if f"/{self.vertex}/0/prepared/" in path and len(self.opened) < 3:
            raise StorageTransientError(verb="replace", uri=path, reason="Input/output error")
        super().replace(path, data)

    def _wrap(self, inner: Storage) -> FailsAfterStage:
        return FailsAfterStage(inner, self.vertex, self.look, self.opened)


def staged_by(world: World, uid: str) -> list[int]:
    """Return the numbers of the attempts that have staged output of the sink."""
    staging = books(world.path(uid)) / world.job_id / uid / "staging"
    names = [place.name for place in staging.iterdir()] if staging.exists() else []
    return sorted({AttemptId.parse(attempt_of(name) or "").number for name in names})


@pytest.mark.parametrize("kind", [*KINDS])
def test_r5_staged_output_of_failed_attempts_goes_while_the_driver_runs(world: World, kind: str) -> None:
    make, vertex, uid, given = KINDS[kind]
    expected = world.put_ids("history", 2, 3) | world.put_ids("live", 1, 3, 1000)
    seen: list[list[int]] = []
    storage = FailsAfterStage(world.storage, vertex, lambda: seen.append(staged_by(world, uid)))
    asks = world.ask("drain", lambda: world.released_count(uid) >= (18 if kind == "splits" else len(expected)))
    run = world.run(make(world), asks, storage=storage, restart_attempts=3, restart_delay=0, **given)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert seen[0] == [2]
    assert world.state().restarts == {f"{vertex}/0": 2}
