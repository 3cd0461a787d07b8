"""A bounded Kafka source: its end is frozen once (R11), and it is left out when it is read (R2)."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ckpt.spark.query.errors import NothingToReadError
from tests.kafka import jobs
from tests.kafka.faults import Interruption, interrupt
from tests.kafka.topics import Topics
from tests.spark.harness import World


def test_r11_rows_written_after_the_first_start_are_not_read(world: World, topics: Topics) -> None:
    history = topics.make(2)
    ids = topics.put(history, range(100))
    late: set[int] = set()

    def put_more(line: object) -> None:
        if not late and world.state().frozen:
            late.update(topics.put(history, range(100, 150)))

    run = world.run(jobs.history_job(world, topics, history), put_more, mode="streaming")
    assert (run.status, bool(late)) == ("FINISHED", True)
    assert world.released_ids() == sorted(ids)


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_r11_a_retry_reads_to_the_end_of_the_first_start(world: World, topics: Topics, mode: str) -> None:
    history = topics.make(3)
    ids = topics.put(history, range(90))
    job = jobs.history_job(world, topics, history)
    with pytest.raises(Interruption):
        world.run(job, interrupt, mode=mode)
    topics.put(history, range(90, 200))
    topics.add_partitions(history, 5)
    topics.put(history, range(200, 300))
    assert world.run(job, mode=mode).status == "FINISHED"
    assert world.released_ids() == sorted(ids)


def test_the_frozen_offsets_are_readable_json(world: World, topics: Topics) -> None:
    history = topics.make(2)
    topics.put(history, range(11))
    assert world.run(jobs.history_job(world, topics, history), mode="streaming").status == "FINISHED"
    [path] = (world.root / "job" / "frozen").iterdir()
    body = json.loads(path.read_text())
    assert (body["format"], body["version"]) == ("airflow-provider-ckpt/frozen-offsets", 1)
    assert [(partition["partition"], partition["start"], partition["end"]) for partition in body["partitions"]] == [
        (0, 0, 6),
        (1, 0, 5),
    ]
    assert {partition["topic"] for partition in body["partitions"]} == {history}


def test_r2_history_next_to_a_live_topic_is_dropped_from_the_query_when_read(world: World, topics: Topics) -> None:
    history, live = topics.make(2), topics.make(1)
    ids = topics.put(history, range(100)) | topics.put(live, range(1000, 1030))
    job = jobs.combined_job(world, topics, history, live)
    late: set[int] = set()

    def on_line(line: dict[str, object]) -> None:
        if not late and world.state().frozen:
            late.update(topics.put(history, range(500, 540)))
        if line["kind"] == "source_dropped":
            ids.update(topics.put(live, range(1030, 1050)))
        drain(line)

    drain = world.ask("drain", lambda: world.released_count() >= 150)
    run = world.run(job, on_line)
    assert (run.status, bool(late), len(run.of("source_dropped"))) == ("FINISHED", True, 1)
    assert [vertex.uid for vertex in world.state().graph().vertices] == ["rows"]
    assert world.released_ids() == sorted(ids)


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_an_empty_topic_is_refused_until_it_has_rows(world: World, topics: Topics, mode: str) -> None:
    history = topics.make(2)
    with pytest.raises(NothingToReadError, match=f"'history' .*there is no row to read in {history}"):
        world.run(jobs.history_job(world, topics, history), mode=mode)
    ids = topics.put(history, range(10))
    assert world.run(jobs.history_job(world, topics, history), mode=mode).status == "FINISHED"
    assert world.released_ids() == sorted(ids)


def test_an_empty_topic_with_allow_empty_ends_at_once(world: World, topics: Topics) -> None:
    history, live = topics.make(2), topics.make(1)
    ids = topics.put(live, range(10))
    run = world.run(jobs.combined_job(world, topics, history, live, allow_empty=True), world.drain_at(10))
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(ids))
    assert any(f"no row to read in {history}" in line["message"] for line in run.of("warning"))


def test_a_source_with_empty_partitions_ends(world: World, topics: Topics) -> None:
    history = topics.make(8)
    ids = topics.put(history, [0, 8, 16])  # all rows are in the first partition
    assert world.run(jobs.history_job(world, topics, history), mode="streaming").status == "FINISHED"
    assert world.released_ids() == sorted(ids)


def test_a_read_committed_source_ends_before_an_open_transaction(world: World, topics: Topics) -> None:
    history = topics.make(1)
    ids = topics.put(history, range(20))
    transaction = topics.open_transaction(history, range(100, 110))
    job = jobs.history_job(world, topics, history, **{"kafka.isolation.level": "read_committed"})
    assert world.run(job, mode="streaming").status == "FINISHED"
    transaction.commit_transaction(60)
    assert world.released_ids() == sorted(ids)


def test_given_offsets_are_the_start_and_the_end(world: World, topics: Topics) -> None:
    history = topics.make(1)
    topics.put(history, range(50))
    given = {"startingOffsets": f'{{"{history}":{{"0":10}}}}', "endingOffsets": f'{{"{history}":{{"0":30}}}}'}
    for mode in ("streaming", "batch"):
        there = World(world.base / mode)
        assert there.run(jobs.history_job(there, topics, history, **given), mode=mode).status == "FINISHED"
        assert there.released_ids() == list(range(10, 30))


def test_r11_a_pattern_selects_the_topics_of_the_first_start(world: World, topics: Topics) -> None:
    name = topics.make(1)
    first, other = topics.make(1, f"{name}-a"), topics.make(2, f"{name}-b")
    ids = topics.put(first, range(5)) | topics.put(other, range(5, 9))
    job = jobs.history_job(world, topics, name, subscribePattern=f"{name}-.")
    with pytest.raises(Interruption):
        world.run(job, interrupt, mode="streaming")
    topics.put(topics.make(1, f"{name}-c"), range(100, 110))
    assert world.run(job, mode="streaming").status == "FINISHED"
    assert world.released_ids() == sorted(ids)
