"""Functions that fail temporarily while the next run is planned.

Finished work stays: no job restarts from scratch because a service was down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import DataFrame, DataFrameReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.job.errors import SplitsFailedForNowError
from airflow_provider_ckpt.spark.query.errors import FunctionFailedForNowError
from tests.spark.faults import BATCH, RefusedEntries
from tests.spark.harness import World
from tests.spark.split_jobs import SplitReader, ids_of, splits

pytestmark = pytest.mark.slow

GIVEN = splits(6)


@dataclass
class Service:
    """A service that the functions of a job call.

    The next call of the function ``down`` fails. ``lists_none``: the next list is empty.
    """

    down: str = ""
    lists_none: bool = False
    read: SplitReader = field(default_factory=SplitReader)
    kind: type[Exception] = OSError

    def ask(self, function: str) -> None:
        if self.down == function:
            self.down = ""
            raise self.kind("connection refused")

    def list(self, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self.ask("list")
        if self.lists_none:
            self.lists_none = False
            return []
        return given


def job_of(world: World, service: Service, given: list[dict[str, Any]] | None = None) -> Job:
    """Return the job parts (by split) -> clean."""
    job = Job("passing")

    @job.source(bounded=True, splits=lambda: service.list(given or GIVEN), parallelism=2)
    def parts(reader: DataFrameReader, split: dict[str, Any]) -> DataFrame:
        service.ask("read")
        return service.read(reader, split)

    @job.transform(inputs=[parts], chain=False)
    def clean(rows: DataFrame) -> DataFrame:
        service.ask("clean")
        return rows.where("id >= 0")

    job.sink("out", clean, FileSink(world.path("out")))
    return job


def died(world: World, service: Service) -> None:
    """Let a run die after it has read all splits and done nothing else."""
    run = world.run(job_of(world, service), storage=RefusedEntries(world.storage, "clean", BATCH))
    assert (run.status, world.state().last_completed) == ("RESTARTING", 0)
    service.read.asked.clear()


def no_list(service: Service) -> None:
    service.lists_none = True


def down(function: str) -> Callable[[Service], None]:
    def act(service: Service) -> None:
        service.down = function

    return act


def stopped_half_way(world: World, service: Service) -> set[str]:
    """Let a run die while some splits of a source are unread; return the splits that are done."""
    storage = RefusedEntries(world.storage, "parts", '"part-5"')
    assert world.run(job_of(world, service), storage=storage).status == "RESTARTING"
    done = {name for at in (0, 1) for _, record in world.records("parts", at) for name in getattr(record, "splits", ())}
    assert 0 < len(done) < len(GIVEN)
    service.read.asked.clear()
    return done


@pytest.mark.parametrize("fails", [down("list"), no_list], ids=["list", "no-list"])
def test_a_run_uses_the_frozen_list_if_the_function_fails(world: World, fails: Callable[[Service], None]) -> None:
    """The list is frozen. The function is only called for a warning about differences."""
    service = Service()
    done = stopped_half_way(world, service)
    fails(service)
    run = world.run(job_of(world, service))
    assert (run.status, run.of("anew")) == ("FINISHED", [])
    assert any("cannot check whether they have changed" in line["message"] for line in run.of("warning"))
    assert not done & set(service.read.asked[1:])  # the first call is for the plan
    assert world.released_ids() == ids_of(GIVEN)


def test_a_temporary_failure_of_a_source_keeps_its_finished_splits(world: World) -> None:
    service = Service()
    done = stopped_half_way(world, service)
    epoch, service.down = world.state().epoch, "read"
    with pytest.raises(FunctionFailedForNowError, match=r"connection refused.*Another try calls it again"):
        world.run(job_of(world, service))
    assert world.state().epoch == epoch
    service.read.asked.clear()
    run = world.run(job_of(world, service))
    assert (run.status, run.of("anew")) == ("FINISHED", [])
    assert not done & set(service.read.asked[1:])
    assert world.released_ids() == ids_of(GIVEN)


def test_a_retry_requests_a_first_list_that_failed(world: World) -> None:
    service = Service(down="list")
    with pytest.raises(SplitsFailedForNowError, match="OSError: connection refused"):
        world.run(job_of(world, service))
    assert world.run(job_of(world, service)).status == "FINISHED"
    assert world.released_ids() == ids_of(GIVEN)


@pytest.mark.parametrize("kind", [OSError, LookupError])
def test_a_temporary_failure_of_a_transform_discards_no_output(world: World, kind: type[Exception]) -> None:
    """An error that may pass by itself is left to the next try.

    Any other error may come from the output of earlier runs. The function is called again before that output is
    discarded.
    """
    service = Service(kind=kind)
    died(world, service)
    service.down = "clean"
    if kind is OSError:
        with pytest.raises(FunctionFailedForNowError):
            world.run(job_of(world, service))
        service.read.asked.clear()
    run = world.run(job_of(world, service))
    assert (run.status, run.of("anew")) == ("FINISHED", [])
    by_a_plan_anew = ["part-0"]  # not needed
    assert service.read.asked == ([] if kind is OSError else by_a_plan_anew)
    assert world.released_ids() == ids_of(GIVEN)


class DownLater(Service):
    """A service that also fails at the third call of the transform."""

    calls = 0

    def ask(self, function: str) -> None:
        self.calls += function == "clean"
        if function == "clean" and self.calls == 3:
            raise OSError("connection refused")
        super().ask(function)


def test_a_temporary_failure_during_a_second_call_is_retryable(world: World) -> None:
    """The failure proves nothing about the transform, so nothing is discarded."""
    died(world, Service())
    service = DownLater(down="clean", kind=LookupError)
    with pytest.raises(FunctionFailedForNowError, match="connection refused"):
        world.run(job_of(world, service))
    run = world.run(job_of(world, service))
    assert (run.status, run.of("anew")) == ("FINISHED", [])
    assert world.released_ids() == ids_of(GIVEN)


@pytest.mark.parametrize("kind", [LookupError, FileNotFoundError])
def test_an_unreadable_split_that_is_no_longer_listed_is_replaced(world: World, kind: type[Exception]) -> None:
    """The frozen list contains the wrong split. The function fails for it every time, with any kind of error."""
    wrong = [{"id": "wrong", "first": 0, "rows": 3}, *GIVEN[1:]]
    service = Service()
    storage = RefusedEntries(world.storage, "parts", BATCH)
    assert world.run(job_of(world, service, wrong), storage=storage).status == "RESTARTING"

    def then(split: str) -> None:
        if split == "wrong":
            raise kind("no such table")

    service.read.then = then
    run = world.run(job_of(world, service))
    assert (run.status, len(run.of("anew"))) == ("FINISHED", 1)
    assert world.released_ids() == ids_of(GIVEN)
