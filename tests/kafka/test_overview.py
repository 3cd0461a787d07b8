"""The overview of a job that reads topics: the records that a live topic holds, and those that history has left."""

from __future__ import annotations

from airflow_provider_ckpt.status.job_overview import SourceOverview, read_overview
from tests.kafka import jobs
from tests.kafka.topics import Topics
from tests.spark.harness import Line, World


def test_the_overview_counts_records_that_are_not_read(world: World, topics: Topics) -> None:
    """History has 60 records, and the live topic 40. A micro-batch reads at most 20 and 10 of them."""
    history_topic, live_topic = topics.make(2), topics.make(2)
    ids = topics.put(history_topic, range(60)) | topics.put(live_topic, range(100, 140))
    seen: list[dict[str, SourceOverview]] = []

    def on_line(line: Line) -> None:
        overview = read_overview(world.storage, world.job_id)
        if overview is not None:
            seen.append({source.uid: source for source in overview.sources})
        drain(line)

    drain = world.drain_at(100)
    job = jobs.combined_job(world, topics, history_topic, live_topic)
    run = world.run(job, on_line, overview_interval=0.05)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(ids)
    behind = {sources["live"].behind for sources in seen} - {None}
    left = {sources["history"].left for sources in seen} - {None}
    assert behind & {10, 20, 30}, behind
    assert left & {20, 40}, left
    overview = read_overview(world.storage, world.job_id)
    assert overview is not None
    history, live = overview.sources
    assert (history.unit, history.left, history.rows) == ("records", 0, 60)
    assert (live.unit, live.behind, live.rows) == ("records", 0, 40)
