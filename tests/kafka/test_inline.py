"""A bounded topic inside the query of a live one: named, left out, and named again only with a rewind (R2)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.storage.errors import StorageTransientError
from tests.kafka import jobs
from tests.kafka.faults import Interruption
from tests.kafka.topics import Topics
from tests.spark.faults import HookedStorage
from tests.spark.harness import Line, World

HISTORY = set(range(100))
LIVE = set(range(1000, 1020))


@pytest.fixture
def two_topics(topics: Topics) -> tuple[str, str]:
    history, live = topics.make(2), topics.make(1)
    topics.put(history, HISTORY)
    topics.put(live, LIVE)
    return history, live


@pytest.mark.parametrize("where", ["in history", "at the drop", "behind the drop"])
def test_r2_a_driver_death_during_or_after_history_repeats_and_loses_no_row(
    world: World, topics: Topics, two_topics: tuple[str, str], where: str
) -> None:
    job = jobs.combined_job(world, topics, *two_topics)

    def on_line(line: Line) -> None:
        dropped = bool(world.state().dropped)
        if line["kind"] == {"in history": "running", "at the drop": "source_dropped"}.get(where):
            raise Interruption
        if where == "behind the drop" and dropped and line["kind"] == "released":
            raise Interruption

    with pytest.raises(Interruption):
        world.run(job, on_line)
    assert bool(world.state().dropped) is (where != "in history")
    ids = HISTORY | LIVE | topics.put(two_topics[1], range(1020, 1040))
    topics.put(two_topics[0], range(500, 550))
    assert world.run(job, world.drain_at(140)).status == "FINISHED"
    assert world.released_ids() == sorted(ids)


def test_r2_a_run_after_the_drop_does_not_read_history_again(
    world: World, topics: Topics, two_topics: tuple[str, str]
) -> None:
    """Spark does not record the offsets that it has read from Kafka.

    If history were named again, Spark would read all of it again.
    """
    job = jobs.combined_job(world, topics, *two_topics)
    stop = world.ask("stop", lambda: bool(world.state().dropped) and world.released_count() == 120)
    assert world.run(job, stop).status == "STOPPED"
    more = topics.put(two_topics[1], range(1020, 1030))
    run = world.run(job, world.drain_at(130))
    assert (run.status, run.of("source_dropped")) == ("FINISHED", [])
    assert world.released_ids() == sorted(HISTORY | LIVE | more)


def test_r4_a_job_restored_into_history_resumes_there(
    world: World, topics: Topics, two_topics: tuple[str, str]
) -> None:
    """Batches after the last checkpoint are void, whatever offsets Spark has recorded for them."""
    job = jobs.combined_job(world, topics, *two_topics, maxOffsetsPerTrigger="10")
    assert world.stop_in_batch(job, "rows", 3).status == "STOPPED"
    point, released = world.state().last_completed, world.released_count()
    prepared: list[str] = []

    def die_in_the_third(verb: str, path: str) -> None:
        if verb == "replace" and "/rows/0/prepared/" in path:
            prepared.append(path)
        if len(prepared) == 3:
            raise StorageTransientError(verb=verb, uri=path, reason="gone")

    storage = HookedStorage(world.storage, die_in_the_third)
    with suppress(TransientError):
        assert world.run(job, storage=storage, checkpoint_interval=36_000).status == "RESTARTING"
    assert (world.state().last_completed, world.released_count()) == (point, released)
    assert released < 120
    run = world.run(job, world.drain_at(120), restore=f"chk-{point}")
    assert (run.status, len(run.of("source_dropped"))) == ("FINISHED", 1)
    assert world.released_ids() == sorted(HISTORY | LIVE)


def test_r2_a_restore_after_the_drop_does_not_read_history_again(
    world: World, topics: Topics, two_topics: tuple[str, str]
) -> None:
    job = jobs.combined_job(world, topics, *two_topics)
    stop = world.ask("stop", lambda: bool(world.state().dropped) and world.released_count() == 120)
    assert world.run(job, stop).status == "STOPPED"
    more = topics.put(two_topics[1], range(1020, 1030))
    run = world.run(job, world.drain_at(130), restore=f"chk-{world.state().last_completed}")
    assert (run.status, run.of("source_dropped")) == ("FINISHED", [])
    assert world.released_ids() == sorted(HISTORY | LIVE | more)


def test_new_partitions_of_a_live_topic_are_read_from_their_start(
    world: World, topics: Topics, two_topics: tuple[str, str]
) -> None:
    job = jobs.combined_job(world, topics, *two_topics)
    assert world.run(job, world.ask("stop", lambda: world.released_count() == 120)).status == "STOPPED"
    topics.add_partitions(two_topics[1], 3)
    more = topics.put(two_topics[1], range(2000, 2030))
    assert world.run(job, world.drain_at(150)).status == "FINISHED"
    assert world.released_ids() == sorted(HISTORY | LIVE | more)


def test_history_in_its_own_query_ends_at_its_frozen_end(
    world: World, topics: Topics, two_topics: tuple[str, str]
) -> None:
    """R11: with ``availableNow`` Spark would take a new end at each start."""
    job = jobs.combined_job(world, topics, *two_topics, chain=False)
    late: set[int] = set()

    def on_line(line: Line) -> None:
        if not late and world.state().frozen:
            late.update(topics.put(two_topics[0], range(500, 550)))
        drain(line)

    drain = world.drain_at(120)
    assert world.run(job, on_line).status == "FINISHED"
    assert [vertex.uid for vertex in world.state().graph().vertices] == ["history", "rows"]
    assert (bool(late), world.released_ids()) == (True, sorted(HISTORY | LIVE))
