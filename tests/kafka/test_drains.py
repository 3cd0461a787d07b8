"""A drain reads the rows of live topics that were there when it was asked for."""

from __future__ import annotations

from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.job_request import DrainRequest
from tests.kafka import jobs
from tests.kafka.topics import Topics
from tests.spark.harness import Line, World


def test_a_drain_reads_the_rows_that_are_waiting(world: World, topics: Topics) -> None:
    """The query would find them at its next trigger, an hour later."""
    topic = topics.make(2)
    ids = topics.put(topic, range(10))

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and len(ids) == 10 and world.released_count() == 10:
            ids.update(topics.put(topic, range(10, 70)))
        drain(line)

    drain = world.drain_at(10)
    job = jobs.live_job(world, topics, topic, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    run = world.run(job, on_line, trigger_interval=3600.0)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(ids)
    assert run.of("warning") == []


def test_a_drain_at_once_warns_how_many_rows_it_leaves_unread(world: World, topics: Topics) -> None:
    topic = topics.make(2)
    topics.put(topic, range(10))
    requests: list[str] = []

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and world.released_count() == 10 and not requests:
            topics.put(topic, range(10, 70))
            requests.append(
                write_request(world.storage, world.job_id, DrainRequest(at_once=True, epoch=world.state().epoch)).name
            )

    job = jobs.live_job(world, topics, topic, startingOffsets="earliest")
    run = world.run(job, on_line, trigger_interval=3600.0)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [*range(10)]
    (warning,) = [line["message"] for line in run.of("warning")]
    assert warning == "the drain has ended source live, and left 60 rows unread"
