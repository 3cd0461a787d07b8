"""A function that fails while the next run is planned, and would not a moment later: what is finished stays. No job
begins anew for a service that was down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import DataFrame, DataFrameReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.job.errors import SplitsFailedForNowError
from airflow_provider_ckpt.spark.query.errors import FunctionFailedForNowError
from tests.spark.faults import BATCH, DiesAt
from tests.spark.harness import World
from tests.spark.test_split_sources import Read, ids_of, splits

GIVEN = splits(6)


@dataclass
class Service:
    """Asked by the functions of a job; the next call of one of them fails, or gives nothing."""

    down: str = ""
    lists_none: bool = False
    read: Read = field(default_factory=Read)
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
    """parts (by split) -> clean."""
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
    """All splits are read, and nothing else."""
    run = world.run(job_of(world, service), storage=DiesAt(world.storage, "clean", BATCH))
    assert (run.status, world.state().last_completed) == ("RESTARTING", 0)
    service.read.asked.clear()


def no_list(service: Service) -> None:
    service.lists_none = True


def down(function: str) -> Callable[[Service], None]:
    def act(service: Service) -> None:
        service.down = function

    return act


def stopped_half_way(world: World, service: Service) -> set[str]:
    """Of a source that is not over: its other splits are read yet. Returns those that are done."""
    storage = DiesAt(world.storage, "parts", '"part-5"')
    assert world.run(job_of(world, service), storage=storage).status == "RESTARTING"
    done = {name for at in (0, 1) for _, one in world.records("parts", at) for name in getattr(one, "completes", ())}
    assert 0 < len(done) < len(GIVEN)
    service.read.asked.clear()
    return done


@pytest.mark.parametrize("fails", [down("list"), no_list], ids=["list", "no-list"])
def test_a_list_that_is_not_given_now_is_the_one_of_then(world: World, fails: Callable[[Service], None]) -> None:
    """It is frozen: what is given now is asked for a warning alone."""
    service = Service()
    done = stopped_half_way(world, service)
    fails(service)
    run = world.run(job_of(world, service))
    assert (run.status, run.of("anew")) == ("FINISHED", [])
    assert any("cannot say whether they are others now" in one["message"] for one in run.of("warning"))
    assert not done & set(service.read.asked[1:])  # behind the plan
    assert world.released_ids() == ids_of(GIVEN)


def test_a_source_whose_function_fails_for_a_moment_is_not_read_again(world: World) -> None:
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


def test_a_first_list_that_is_not_given_is_asked_for_by_the_next_try(world: World) -> None:
    service = Service(down="list")
    with pytest.raises(SplitsFailedForNowError, match="OSError: connection refused"):
        world.run(job_of(world, service))
    assert world.run(job_of(world, service)).status == "FINISHED"
    assert world.released_ids() == ids_of(GIVEN)


@pytest.mark.parametrize("kind", [OSError, LookupError])
def test_a_transform_that_fails_for_a_moment_goes_on_with_what_there_is(world: World, kind: type[Exception]) -> None:
    """With what may pass by itself it is for the next try. With anything else it may have failed for what the runs
    before have left: it is asked once more, before that is thrown away."""
    service = Service(kind=kind)
    died(world, service)
    service.down = "clean"
    if kind is OSError:
        with pytest.raises(FunctionFailedForNowError):
            world.run(job_of(world, service))
        service.read.asked.clear()
    run = world.run(job_of(world, service))
    assert (run.status, run.of("anew")) == ("FINISHED", [])
    by_a_plan_anew = ["part-0"]  # which was not needed
    assert service.read.asked == ([] if kind is OSError else by_a_plan_anew)
    assert world.released_ids() == ids_of(GIVEN)


class DownLater(Service):
    """Down, too, when its transform is called for the third time."""

    calls = 0

    def ask(self, function: str) -> None:
        self.calls += function == "clean"
        if function == "clean" and self.calls == 3:
            raise OSError("connection refused")
        super().ask(function)


def test_what_fails_for_a_moment_while_a_transform_is_asked_once_more_is_for_the_next_try(world: World) -> None:
    """It says nothing about the transform: nothing is thrown away."""
    died(world, Service())
    service = DownLater(down="clean", kind=LookupError)
    with pytest.raises(FunctionFailedForNowError, match="connection refused"):
        world.run(job_of(world, service))
    run = world.run(job_of(world, service))
    assert (run.status, run.of("anew")) == ("FINISHED", [])
    assert world.released_ids() == ids_of(GIVEN)


@pytest.mark.parametrize("kind", [LookupError, FileNotFoundError])
def test_a_split_that_cannot_be_read_and_is_given_no_more_is_corrected(world: World, kind: type[Exception]) -> None:
    """It is in the frozen list: there the function fails for what was before, each time, whatever it fails with."""
    wrong = [{"id": "wrong", "first": 0, "rows": 3}, *GIVEN[1:]]
    service = Service()
    storage = DiesAt(world.storage, "parts", BATCH)
    assert world.run(job_of(world, service, wrong), storage=storage).status == "RESTARTING"

    def then(split: str) -> None:
        if split == "wrong":
            raise kind("no such table")

    service.read.then = then
    run = world.run(job_of(world, service))
    assert (run.status, len(run.of("anew"))) == ("FINISHED", 1)
    assert world.released_ids() == ids_of(GIVEN)
