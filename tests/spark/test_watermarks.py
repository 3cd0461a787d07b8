"""The event time of a checkpoint: everything before it that the checkpoint covers is complete."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.model.source_times import MAX_WATERMARK
from tests.spark.harness import Line, World
from tests.spark.jobs import windows

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("chain", [True, False], ids=["one query", "history for itself"])
@pytest.mark.parametrize("empty_batches", ["true", "false"])
def test_a_checkpoint_releases_every_window_below_its_watermark(
    world: World, spark: SparkSession, chain: bool, empty_batches: str
) -> None:
    """Spark moves the watermark in one batch and closes windows in the next.

    Without empty batches the next batch may come late.
    """
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", empty_batches)
    world.put_ids("history", 3, 10)
    world.put_ids("live", 1, 10, 1_000)
    starts = [*range(0, 30, 10), *range(1_000, 1_040, 10)]
    seen: dict[int, int | None] = {}
    more: list[int] = []

    def past_live() -> bool:
        come = max((watermark for watermark in seen.values() if watermark is not None), default=0)
        return come >= 1_010_000 and world.read_up_to("counts", "live") == 3  # a drain ends the feed at its position

    drain = world.ask("drain", past_live)

    def on_line(line: Line) -> None:
        if world.state().dropped and not more:  # until then history holds event time back
            more.extend(world.put_ids("live", 3, 10, 1_010))
        if line["kind"] == "released":
            state = world.state()
            seen[line["released"]] = come = state.watermark(line["released"])
            passed = {start for start in starts if come is not None and (start + 10) * 1000 <= come}
            released = set(world.released_ids(up_to=line["released"]))
            assert released >= passed, (come, released)
        drain(line)

    run = world.run(windows(world, chain=chain), on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == starts
    state = world.state()
    assert state.has_event_time
    assert state.watermark(state.last_released) == MAX_WATERMARK
    assert any(watermark is not None and 1_000_000 < watermark < MAX_WATERMARK for watermark in seen.values()), seen
