"""A driver that dies anywhere: the next one finishes the job, and every row is released exactly once.

A run dies at its k-th mutating verb, counted over the checkpoint root and the sinks' folders together. The
default run takes some k; ``make chaos`` takes every one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.sinks.sink import Sink
from tests.spark.faults import Fault, FaultySink, FaultyStorage, NothingIsPublished
from tests.spark.harness import World, check_finished, put_history_and_live
from tests.spark.jobs import depths, mixed

MakeJob = Callable[[World, Callable[[str], Sink]], Job]


def inline(world: World, sink: Callable[[str], Sink]) -> Job:
    return mixed(world, sink=sink)


def with_edges(world: World, sink: Callable[[str], Sink]) -> Job:
    return depths(world, sink)


def run_into(world: World, make: MakeJob, fault: Fault, rows: int) -> str:
    """Run the job into the fault; return its status, or the name of the error that ended it.

    An error that is not transient is a bug, because the next try would be refused.
    """
    job = make(world, lambda path: FaultySink(path, fault=fault))
    try:
        run = world.run(job, world.drain_at(rows), FaultyStorage(world.storage, fault))
    except TransientError as error:
        return type(error).__name__
    assert run.status in ("FINISHED", "RESTARTING"), run
    return run.status


def finish(world: World, make: MakeJob, rows: int) -> None:
    run = world.run(make(world, FaultySink), world.drain_at(rows))
    assert (run.status, run.cause) == ("FINISHED", None)


def die_and_recover(world: World, make: MakeJob, at: int) -> bool:
    """Let a run die at its verb ``at`` and recover. Return False if the run ended before that verb."""
    expected = put_history_and_live(world)
    fault = Fault(at, "after" if at % 2 else "before")
    ended = run_into(world, make, fault, len(expected))
    print(f"verb {at} ({fault.when}): {fault.verbs.log[at - 1 : at]} -> {ended}")
    assert fault.happened or ended == "FINISHED"
    finish(world, make, len(expected))
    check_finished(world, expected)
    return fault.happened


@pytest.mark.parametrize("at", [6, 14, 23, 37, 52])
def test_the_next_run_finishes_a_crashed_one(world: World, at: int) -> None:
    die_and_recover(world, inline, at)


@pytest.mark.slow
@pytest.mark.parametrize("at", [9, 20, 33, 47, 64, 90])
def test_the_next_run_finishes_a_crashed_one_with_edges(world: World, at: int) -> None:
    die_and_recover(world, with_edges, at)


@pytest.mark.chaos
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("make", [inline, with_edges], ids=["inline", "edges"])
def test_a_crash_at_each_verb_loses_and_repeats_nothing(world: World, make: MakeJob) -> None:
    for at in count(1):
        if not die_and_recover(World(world.base / str(at)), make, at):
            return


@pytest.mark.slow
@pytest.mark.parametrize("at", [24, 45])
def test_two_crashes_in_a_row_lose_and_repeat_nothing(world: World, at: int) -> None:
    expected = put_history_and_live(world)
    run_into(world, with_edges, Fault(at, "after"), len(expected))
    run_into(world, with_edges, Fault(at // 2, "before"), len(expected))
    finish(world, with_edges, len(expected))
    check_finished(world, expected)


@pytest.mark.parametrize("at", [20, 33])
def test_a_job_survives_one_failing_verb(world: World, at: int) -> None:
    expected = put_history_and_live(world)
    ended = run_into(world, inline, Fault(at, once=True), len(expected))
    if ended != "FINISHED":
        finish(world, inline, len(expected))
    check_finished(world, expected)


def test_r1_a_committed_batch_is_published_after_two_dead_drivers(world: World) -> None:
    """The second driver dies after it has copied the first one's commit and before it has published."""
    expected = put_history_and_live(world)
    for _ in range(2):
        try:
            run = world.run(mixed(world), storage=NothingIsPublished(world.storage))
        except TransientError:
            continue
        assert run.status == "RESTARTING"
    finish(world, inline, len(expected))
    check_finished(world, expected)
