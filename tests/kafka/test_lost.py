"""Rows that are gone from Kafka, topics that are, and brokers: said by name, never passed over or tried for ever."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.job.errors import DefinitionChangedError
from airflow_provider_ckpt.spark.query.kafka.errors import (
    KafkaOptionError,
    KafkaStartGoneError,
    KafkaTopicMissingError,
    KafkaUnreachableError,
)
from tests.kafka import jobs
from tests.kafka.broker import free_ports
from tests.kafka.test_bounded import Interruption
from tests.kafka.topics import Topics
from tests.spark.faults import HookedEntries
from tests.spark.harness import World


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_history_that_retention_has_taken_ends_the_job_with_topic_partition_and_offset(
    world: World, topics: Topics, mode: str
) -> None:
    history = topics.make(2)
    topics.put(history, range(100))
    job = jobs.of_history(world, topics, history)

    def dies() -> None:
        raise Interruption  # before it has read anything

    with pytest.raises(Interruption):
        world.run(job, mode=mode, storage=HookedEntries(world.storage, '"type": "SourceFrozen"', dies))
    topics.expire(history, 30)
    run = world.run(job, mode=mode)
    assert (run.status, world.released_ids()) == ("FAILED", [])
    assert run.cause is not None
    assert "gone from Kafka" in run.cause
    assert f"{history}-" in run.cause


def test_live_rows_that_retention_has_taken_while_the_job_was_stopped_end_it(world: World, topics: Topics) -> None:
    history, live = topics.make(1), topics.make(1)
    ids = topics.put(live, range(10))
    job = jobs.of_both(world, topics, history, live)
    assert world.run(job, world.ask("stop", lambda: world.released_count() == 10)).status == "STOPPED"
    topics.put(live, range(10, 30))
    topics.expire(live, 20)
    run = world.run(job)
    assert (run.status, world.released_ids()) == ("FAILED", sorted(ids))
    assert run.cause is not None
    assert f"{live}-0" in run.cause


@pytest.mark.parametrize("rows", [5, 40])
def test_a_topic_that_was_made_again_is_not_taken_for_the_old_one_however_long_it_is(
    world: World, topics: Topics, rows: int
) -> None:
    history, live = topics.make(1), topics.make(1)
    topics.put(live, range(10))
    job = jobs.of_both(world, topics, history, live)
    assert world.run(job, world.ask("stop", lambda: world.released_count() == 10)).status == "STOPPED"
    topics.delete(live)
    topics.make(1, live)
    topics.put(live, range(100, 100 + rows))
    before = world.everything_under_root()
    with pytest.raises(DefinitionChangedError, match=f"source 'live'.*topics.*{live}.*made again"):
        world.run(job)
    assert world.everything_under_root() == before


def test_a_topic_that_nobody_knows_is_named_before_anything_is_written(world: World, topics: Topics) -> None:
    with pytest.raises(KafkaTopicMissingError, match=r"source 'history' .* reads nowhere, .* make it"):
        world.run(jobs.of_history(world, topics, "nowhere"), mode="streaming")
    assert world.everything_under_root() == []


def test_a_broker_that_is_down_is_named_and_is_no_end(world: World) -> None:
    dead = Topics(f"127.0.0.1:{free_ports(1)[0]}")
    job = jobs.of_history(world, dead, "orders", **{"kafka.default.api.timeout.ms": "2000"})
    with pytest.raises(KafkaUnreachableError, match=dead.servers) as raised:
        world.run(job, mode="streaming")
    assert raised.value.retryable
    assert world.everything_under_root() == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"startingOffsets": "latest"},
            "startingOffsets=latest: a bounded source that begins at the end",
        ),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "begins at the end reads nothing"),
        ({"startingOffsets": "5"}, 'it is "earliest", or a JSON object'),
        ({"endingOffsets": "earliest"}, "ends at the beginning reads nothing"),
        ({"startingTimestamp": "1"}, "decided once, by offsets"),
        ({"endingOffsetsByTimestamp": "{}"}, "decided once, by offsets"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else "",
)
def test_options_with_which_a_bounded_source_would_read_nothing_or_have_no_end_are_refused(
    world: World, topics: Topics, options: dict[str, str], told: str
) -> None:
    with pytest.raises(KafkaOptionError, match=told):
        world.run(jobs.of_history(world, topics, topics.make(), **options), mode="streaming")
    assert world.everything_under_root() == []


def test_offsets_that_are_not_there_are_no_place_to_begin(world: World, topics: Topics) -> None:
    history = topics.make()
    topics.put(history, range(10))
    topics.expire(history, 5)
    given = f'{{"{history}":{{"0":2}}}}'
    with pytest.raises(KafkaStartGoneError, match=r"offset 2 of .*, partition 0, which holds 5 to 10"):
        world.run(jobs.of_history(world, topics, history, startingOffsets=given), mode="streaming")


def test_an_end_that_no_row_has_come_to_is_refused(world: World, topics: Topics) -> None:
    history = topics.make()
    topics.put(history, range(10))
    given = f'{{"{history}":{{"0":11}}}}'
    with pytest.raises(KafkaOptionError, match=r"endingOffsets=11: .* ends at 10"):
        world.run(jobs.of_history(world, topics, history, endingOffsets=given), mode="streaming")


@pytest.mark.parametrize(
    ("start", "end", "told"),
    [
        (None, 3, r"endingOffsets=3: .*, partition 0, would be read from 5 on, .* reads nothing"),
        (8, 7, r"endingOffsets=7: .*, partition 0, would be read from 8 on, .* reads nothing"),
        (None, -3, r"endingOffsets=-3: .*, partition 0, would be read from 5 on, .* reads nothing"),
    ],
)
def test_an_end_in_front_of_the_beginning_is_not_taken_for_one_that_is_reached(
    world: World, topics: Topics, start: int | None, end: int, told: str
) -> None:
    """Its rows may be gone by now, and the job would be FINISHED without them."""
    history = topics.make()
    topics.put(history, range(10))
    topics.expire(history, 5)
    given = {"endingOffsets": f'{{"{history}":{{"0":{end}}}}}'}
    if start is not None:
        given["startingOffsets"] = f'{{"{history}":{{"0":{start}}}}}'
    with pytest.raises(KafkaOptionError, match=told):
        world.run(jobs.of_history(world, topics, history, **given), mode="streaming")


def test_another_topic_under_the_same_job_id_is_refused(world: World, topics: Topics) -> None:
    history, live, other = topics.make(), topics.make(), topics.make()
    topics.put(history, range(100))
    topics.put(live, range(1000, 1010))
    stop = world.ask("stop", lambda: world.released_count() > 0)
    world.run(jobs.of_both(world, topics, history, live, maxOffsetsPerTrigger="5"), stop)
    with pytest.raises(DefinitionChangedError, match=r"source 'history'.*selection"):
        world.run(jobs.of_both(world, topics, other, live))
