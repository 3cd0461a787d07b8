"""Lost rows, lost topics and lost brokers. Errors name them; a job neither skips them nor retries forever."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt import Job
from airflow_provider_ckpt.job.errors import DefinitionChangedError
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from airflow_provider_ckpt.spark.query.kafka.errors import KafkaTopicMissingError, KafkaUnreachableError
from airflow_provider_ckpt.spark.query.kafka.offsets import FrozenOffsets, FrozenPartition
from airflow_provider_ckpt.task import bounded_offsets
from tests.kafka import jobs
from tests.kafka.broker import free_ports
from tests.kafka.faults import Interruption, interrupt
from tests.kafka.topics import Topics
from tests.spark.faults import HookedEntries
from tests.spark.harness import Line, World


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_expired_rows_of_a_bounded_topic_fail_the_job(world: World, topics: Topics, mode: str) -> None:
    history = topics.make(2)
    topics.put(history, range(100))
    job = jobs.history_job(world, topics, history)

    def dies() -> None:
        raise Interruption  # ends before it has read anything

    with pytest.raises(Interruption):
        world.run(job, mode=mode, storage=HookedEntries(world.storage, '"type": "SourceFrozen"', dies))
    topics.expire(history, 30)
    run = world.run(job, mode=mode)
    assert (run.status, world.released_ids()) == ("FAILED", [])
    assert run.cause is not None
    assert "gone from Kafka" in run.cause
    assert f"{history}-" in run.cause


def test_live_rows_that_expired_while_the_job_was_stopped_fail_it(world: World, topics: Topics) -> None:
    history, live = topics.make(1), topics.make(1)
    ids = topics.put(live, range(10))
    job = jobs.combined_job(world, topics, history, live, allow_empty=True)
    assert world.run(job, world.ask("stop", lambda: world.released_count() == 10)).status == "STOPPED"
    topics.put(live, range(10, 30))
    topics.expire(live, 20)
    run = world.run(job)
    assert (run.status, world.released_ids()) == ("FAILED", sorted(ids))
    assert run.cause is not None
    assert f"{live}-0" in run.cause


@pytest.mark.parametrize("rows", [5, 40])
def test_a_recreated_live_topic_of_any_length_is_refused(world: World, topics: Topics, rows: int) -> None:
    history, live = topics.make(1), topics.make(1)
    topics.put(live, range(10))
    job = jobs.combined_job(world, topics, history, live, allow_empty=True)
    assert world.run(job, world.ask("stop", lambda: world.released_count() == 10)).status == "STOPPED"
    topics.delete(live)
    topics.make(1, live)
    topics.put(live, range(100, 100 + rows))
    before = world.everything_under_root()
    with pytest.raises(DefinitionChangedError, match=f"source 'live'.*topics.*{live}.*made again"):
        world.run(job)
    assert world.everything_under_root() == before


@pytest.mark.parametrize("inline", [True, False])
def test_a_bounded_topic_recreated_after_the_first_start_is_refused(world: World, topics: Topics, inline: bool) -> None:
    """The function of a bounded source is called twice while a first start is planned."""
    history, live = topics.make(1), topics.make(1)
    topics.put(history, range(100))
    both = jobs.combined_job(world, topics, history, live, maxOffsetsPerTrigger="5")
    job = both if inline else jobs.history_job(world, topics, history, maxOffsetsPerTrigger="5")
    vertex = "rows" if inline else "history"
    assert world.stop_in_batch(job, vertex, 3, mode="streaming").status == "STOPPED"
    topics.delete(history)
    topics.make(1, history)
    topics.put(history, range(1000, 1200))
    with pytest.raises(DefinitionChangedError, match=f"source 'history'.*topics.*{history}.*made again"):
        world.run(job, mode="streaming")
    assert world.released_ids() == list(range(10))


def test_a_bounded_topic_recreated_while_it_is_read_fails_the_job(
    world: World, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new topic is longer than the part already read, so Spark notices nothing.

    It is shorter than the frozen end, so that end would never be reached.
    """
    monkeypatch.setattr(bounded_offsets, "FIRST_CHECK", 1.0)
    history = topics.make(1)
    topics.put(history, range(100))
    again: list[str] = []

    def on_line(line: Line) -> None:
        if not again and line["kind"] == "released" and world.released_count() < 60:
            topics.delete(history)
            again.append(topics.make(1, history))
            topics.put(history, range(1000, 1080))

    run = world.run(jobs.history_job(world, topics, history, maxOffsetsPerTrigger="5"), on_line, mode="streaming")
    assert (run.status, bool(again)) == ("FAILED", True)
    assert run.cause is not None
    assert f"Topic {history} was deleted and made again" in run.cause


def test_a_restarted_query_does_not_resume_in_a_recreated_topic(world: World, topics: Topics) -> None:
    """The new topic is longer than the part read of the old one. Spark would skip that many of its rows."""
    live = topics.make(1)
    ids = topics.put(live, range(10))
    done: list[str] = []

    def on_line(line: Line) -> None:
        if not done and line["kind"] == "released" and world.released_count() == 10:
            done.append("deleted")
            topics.delete(live)
        if done == ["deleted"] and line["kind"] == "subtask_restarting":
            done.append(topics.make(1, live))
            topics.put(live, range(1000, 1100))

    job = jobs.live_job(world, topics, live, startingOffsets="earliest")
    run = world.run(job, on_line, restart_attempts=5, restart_delay=3)
    assert (run.status, len(done), world.released_ids()) == ("FAILED", 2, sorted(ids))
    assert run.cause is not None
    assert f"Topic {live} was deleted and made again" in run.cause


def test_a_truncated_bounded_topic_fails_the_job_with_its_offsets(
    world: World, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that lost unwritten data may cut a log off like this, and the topic keeps its id."""
    monkeypatch.setattr(bounded_offsets, "FIRST_CHECK", 1.0)
    history = topics.make(1)
    topics.put(history, range(50))
    job = jobs.history_job(world, topics, history)
    with pytest.raises(Interruption):
        world.run(job, interrupt, mode="streaming")
    storage, path = world.storage, "job/frozen/history.json"
    longer = FrozenOffsets("history", (FrozenPartition(history, 0, 0, 60),))
    storage.replace(path, longer.encoded())
    run = world.run(job, mode="streaming")
    assert run.status == "FAILED"
    assert run.cause is not None
    assert f"Partition 0 of topic {history} was to be read up to offset 60, and ends at 50" in run.cause


def test_a_missing_source_topic_is_refused_before_anything_is_written(world: World, topics: Topics) -> None:
    with pytest.raises(KafkaTopicMissingError, match=r"source 'history' .* reads nowhere, .* create it"):
        world.run(jobs.history_job(world, topics, "nowhere"), mode="streaming")
    assert world.everything_under_root() == []


def test_an_unreachable_broker_is_a_retryable_error(world: World) -> None:
    dead = Topics(f"127.0.0.1:{free_ports(1)[0]}")
    job = jobs.history_job(world, dead, "orders", **{"kafka.default.api.timeout.ms": "2000"})
    with pytest.raises(KafkaUnreachableError, match=dead.servers) as raised:
        world.run(job, mode="streaming")
    assert raised.value.retryable
    assert world.everything_under_root() == []


@pytest.mark.parametrize(
    ("options", "message"),
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
def test_unsuitable_kafka_options_of_a_bounded_source_are_refused(
    world: World, topics: Topics, options: dict[str, str], message: str
) -> None:
    with pytest.raises(UnfitSourceError, match=message):
        world.run(jobs.history_job(world, topics, topics.make(), **options), mode="streaming")
    assert world.everything_under_root() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "5"}, 'startingOffsets=5: it is "earliest", "latest", or a JSON object'),
        ({"startingOffsets": "soon"}, 'startingOffsets=soon: it is "earliest", "latest", or a JSON object'),
        ({"startingTimestamp": "noon"}, "startingTimestamp=noon: it is no number of milliseconds"),
        ({"startingOffsetsByTimestamp": "[]"}, r"startingOffsetsByTimestamp=\[\]: it is a JSON object"),
        ({"kafka.isolation.level": "READ_COMMITTED"}, "READ_COMMITTED: it is read_uncommitted or read_committed, in"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger=0: it is no number of offsets from 1 on"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger=many: it is no number of offsets"),
    ],
    ids=lambda given: "-".join(f"{k}={v}" for k, v in given.items()) if isinstance(given, dict) else "",
)
def test_invalid_kafka_options_of_a_live_source_are_refused(
    world: World, topics: Topics, options: dict[str, str], message: str
) -> None:
    """Otherwise the query would fail with them in each try, or never read a row."""
    with pytest.raises(UnfitSourceError, match=message):
        world.run(jobs.live_job(world, topics, topics.make(), **options))
    assert world.everything_under_root() == []


@pytest.mark.parametrize("key", ["startingOffsets", "startingOffsetsByTimestamp"])
def test_incomplete_starting_offsets_fail_the_job_until_corrected(world: World, topics: Topics, key: str) -> None:
    live = topics.make(2)
    ids = topics.put(live, range(10))
    run = world.run(jobs.live_job(world, topics, live, **{key: f'{{"{live}":{{"0":1}}}}'}))
    assert run.status == "FAILED"
    assert run.cause is not None
    assert f"{key} of its Kafka source must name each partition" in run.cause
    mended = jobs.live_job(world, topics, live, startingOffsets="earliest")
    assert world.run(mended, world.drain_at(10), resume_failed=True).status == "FINISHED"
    assert world.released_ids() == sorted(ids)


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_incomplete_starting_offsets_of_a_bounded_source_are_refused(world: World, topics: Topics, mode: str) -> None:
    history = topics.make(2)
    topics.put(history, range(10))
    given = f'{{"{history}":{{"0":1}}}}'
    with pytest.raises(UnfitSourceError, match=f"must name each partition .* wrong for {history}-1"):
        world.run(jobs.history_job(world, topics, history, startingOffsets=given), mode=mode)


def test_max_offsets_per_trigger_0_is_refused_for_a_bounded_source(world: World, topics: Topics) -> None:
    """Otherwise it would run forever and read nothing."""
    job = jobs.history_job(world, topics, topics.make(), maxOffsetsPerTrigger="0")
    with pytest.raises(UnfitSourceError, match="maxOffsetsPerTrigger=0: it is no number of offsets from 1 on"):
        world.run(job, mode="streaming")
    assert world.everything_under_root() == []


def test_expired_starting_offsets_are_refused(world: World, topics: Topics) -> None:
    history = topics.make()
    topics.put(history, range(10))
    topics.expire(history, 5)
    given = f'{{"{history}":{{"0":2}}}}'
    with pytest.raises(UnfitSourceError, match=r"offset 2 of .*, partition 0, which holds 5 to 10"):
        world.run(jobs.history_job(world, topics, history, startingOffsets=given), mode="streaming")


def test_ending_offsets_beyond_the_topics_end_are_refused(world: World, topics: Topics) -> None:
    history = topics.make()
    topics.put(history, range(10))
    given = f'{{"{history}":{{"0":11}}}}'
    with pytest.raises(UnfitSourceError, match=r"endingOffsets=11: .* ends at 10"):
        world.run(jobs.history_job(world, topics, history, endingOffsets=given), mode="streaming")


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (None, 3, r"endingOffsets=3: .*, partition 0, would be read from 5 on, .* reads nothing"),
        (8, 7, r"endingOffsets=7: .*, partition 0, would be read from 8 on, .* reads nothing"),
        (None, -3, r"endingOffsets=-3: .*, partition 0, would be read from 5 on, .* reads nothing"),
    ],
)
def test_ending_offsets_before_the_start_are_refused(
    world: World, topics: Topics, start: int | None, end: int, message: str
) -> None:
    """The rows may already be deleted, and the job would become FINISHED without them."""
    history = topics.make()
    topics.put(history, range(10))
    topics.expire(history, 5)
    given = {"endingOffsets": f'{{"{history}":{{"0":{end}}}}}'}
    if start is not None:
        given["startingOffsets"] = f'{{"{history}":{{"0":{start}}}}}'
    with pytest.raises(UnfitSourceError, match=message):
        world.run(jobs.history_job(world, topics, history, **given), mode="streaming")


def test_another_topic_under_the_same_job_id_is_refused(world: World, topics: Topics) -> None:
    history, live, other = topics.make(), topics.make(), topics.make()
    topics.put(history, range(100))
    topics.put(live, range(1000, 1010))
    stop = world.ask("stop", lambda: world.released_count() > 0)
    world.run(jobs.combined_job(world, topics, history, live, maxOffsetsPerTrigger="5"), stop)
    with pytest.raises(DefinitionChangedError, match=r"source 'history'.*selection"):
        world.run(jobs.combined_job(world, topics, other, live))


def test_a_live_source_may_add_topics_but_not_omit_one(world: World, topics: Topics) -> None:
    """Spark would report the rows of the omitted topic as lost, even if the job named it again.

    Spark's planned offsets would no longer contain the topic.
    """
    first, other = topics.make(), topics.make()
    ids = topics.put(first, range(10)) | topics.put(other, range(10, 20))

    def reading(*names: str) -> Job:
        return jobs.live_job(world, topics, ",".join(names), startingOffsets="earliest")

    assert world.run(reading(first), world.ask("stop", lambda: world.released_count() == 10)).status == "STOPPED"
    assert world.run(reading(first, other), world.ask("stop", lambda: world.released_count() == 20)).status == "STOPPED"
    before = world.everything_under_root()
    with pytest.raises(DefinitionChangedError, match=f"source 'live'.*topics left out.*{first}"):
        world.run(reading(other))
    assert world.everything_under_root() == before
    assert world.run(reading(other, first), world.drain_at(20)).status == "FINISHED"
    assert world.released_ids() == sorted(ids)
