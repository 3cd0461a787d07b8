"""Whole jobs with real Spark: mixed sources, graphs with edges, and the rows in the sinks."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.subtasklog.records import Batch
from tests.spark.harness import Line, World
from tests.spark.jobs import bounded, bounded_with_ticks, depths, joined, mixed, windows

pytestmark = pytest.mark.slow


def test_r2_finished_history_is_dropped_and_every_row_is_released_once(world: World) -> None:
    expected = world.put_ids("history", 3, 5) | world.put_ids("live", 3, 4, 1000)
    dropped_at: list[int] = []
    drain = world.ask("drain", lambda: bool(world.state().dropped) and world.released_count() >= len(expected) + 4)

    def on_line(line: Line) -> None:
        if line["kind"] == "source_dropped":
            dropped_at.append(world.state().dropped["doubled"]["history"])
            world.put_ids("live", 1, 4, 2000)  # the query continues without history
        drain(line)

    run = world.run(mixed(world), on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected | {*range(2000, 2004)})
    batches = [record for _, record in world.records("doubled") if isinstance(record, Batch)]
    assert [set(batch.offsets) for batch in batches if batch.batch_id > dropped_at[0]] != []
    assert all("history" not in batch.offsets for batch in batches if batch.batch_id > dropped_at[0])
    assert run.kinds.index("source_ended") < run.kinds.index("source_dropped")


def test_history_in_its_own_query_passes_its_partition_once(world: World) -> None:
    expected = world.put_ids("history", 3, 5) | world.put_ids("live", 2, 4, 1000)
    run = world.run(mixed(world, chain=False), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert world.state().finished == {"history/0", "doubled/0"}


def test_r24_the_sinks_of_one_vertex_agree_in_every_checkpoint(world: World) -> None:
    expected = world.put_ids("history", 4, 2) | world.put_ids("live", 4, 2, 1000)
    run = world.run(mixed(world, sinks=("out", "copy")), world.drain_at(len(expected), "out", "copy"))
    assert run.status == "FINISHED"
    assert world.checkpoints_released("out") == world.checkpoints_released("copy")
    for checkpoint in world.checkpoints_released("out"):
        assert world.released_ids("out", checkpoint) == world.released_ids("copy", checkpoint)
    assert world.released_ids("copy") == sorted(expected)


def test_r24_sinks_of_different_depth_show_the_same_prefix(world: World) -> None:
    history = world.put_ids("history", 5, 2)
    live = world.put_ids("live", 2, 2, 1000)
    run = world.run(depths(world), world.drain_at(len(history | live), "out"))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids("raw") == sorted(history)
    assert world.released_ids("out") == sorted(history | live)
    for checkpoint in range(1, max(world.checkpoints_released("out")) + 1):
        through = [number for number in world.released_ids("out", checkpoint) if number in history]
        assert through == world.released_ids("raw", checkpoint), f"checkpoint {checkpoint}"


def test_history_in_a_join_is_not_dropped_and_the_job_drains(world: World) -> None:
    world.put_ids("history", 1, 3)
    world.put_ids("live", 2, 3, 1000)
    run = world.run(joined(world), world.drain_at(6))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [*range(1000, 1006)]
    assert run.of("source_ended")
    assert run.of("source_dropped") == []


@pytest.mark.parametrize("chain", [True, False], ids=["inline", "own query"])
def test_r13_live_event_time_does_not_make_history_late(world: World, chain: bool) -> None:
    history = world.put_ids("history", 3, 10)
    live = world.put_ids("live", 2, 10, 1_000_000)
    done = world.ask("drain", lambda: bool(world.state().dropped) and world.read_up_to("counts", "live") >= 1)
    run = world.run(windows(world, chain=chain), done)
    assert (run.status, run.cause) == ("FINISHED", None)
    counted = {row["id"]: row["n"] for row in world.released()}
    assert counted == dict.fromkeys(range(0, len(history), 10), 10) | {1_000_000: 10, 1_000_010: 10}
    assert len(world.released()) == (len(history) + len(live)) // 10


def test_r12_a_bounded_job_in_streaming_mode_fires_its_last_windows(world: World) -> None:
    world.put_ids("history", 3, 10)
    run = world.run(windows(world, live_too=False), mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    assert {row["id"]: row["n"] for row in world.released()} == {0: 10, 10: 10, 20: 10}
    assert len(world.released()) == 3


@pytest.mark.parametrize("chain", [True, False], ids=["one query", "with an edge"])
def test_a_bounded_job_runs_in_batch_mode_with_final_results(world: World, chain: bool) -> None:
    expected = world.put_ids("history", 3, 5)
    run = world.run(bounded(world, chain=chain))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert world.checkpoints_released() == [world.state().last_completed]
    created = world.state().created
    assert created is not None
    assert created.mode == "batch"


def test_windows_are_complete_in_batch_mode(world: World) -> None:
    world.put_ids("history", 3, 10)
    assert world.run(windows(world, live_too=False)).status == "FINISHED"
    assert {row["id"]: row["n"] for row in world.released()} == {0: 10, 10: 10, 20: 10}


def test_a_final_only_sink_shows_nothing_before_the_end(world: World) -> None:
    expected = world.put_ids("history", 2, 5) | world.put_ids("live", 2, 4, 1000)
    seen: list[int] = []

    def checkpoints_have_gone_by() -> bool:
        return bool(seen) and bool(world.state().dropped) and world.read_up_to("doubled", "live") >= 0

    drain = world.ask("drain", checkpoints_have_gone_by)

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and not world.state().end_of_data:
            seen.append(world.released_count())
        drain(line)

    run = world.run(mixed(world, release="final"), on_line)
    assert run.status == "FINISHED"
    assert set(seen) == {0}
    assert world.released_ids() == sorted(expected)
    assert len(world.checkpoints_released()) == 1


def test_an_empty_history_folder_is_a_finished_source(world: World) -> None:
    world.path("history")
    expected = world.put_ids("live", 2, 4, 1000)
    run = world.run(mixed(world, allow_empty=True), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert run.of("source_ended")


def test_d4_the_end_of_data_does_not_wait_for_the_interval(world: World) -> None:
    """History ends before the first interval. Its rows are released at once, and so is its end."""
    expected = world.put_ids("history", 2, 5) | world.put_ids("live", 1, 4, 1000)
    drain = world.ask("drain", lambda: bool(world.state().dropped))
    run = world.run(mixed(world), drain, checkpoint_interval=36_000)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert sorted(set(world.released_ids())) == world.released_ids()
    assert {*world.released_ids()} >= expected - {*range(1000, 1004)}
    numbers = sorted(world.state().checkpoints)
    assert numbers == [*range(1, len(numbers) + 1)]


def test_d4_a_bounded_job_in_streaming_mode_ends_before_its_first_interval(world: World) -> None:
    expected = world.put_ids("history", 2, 5)
    run = world.run(bounded(world, chain=False), mode="streaming", checkpoint_interval=36_000)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_late_files_are_reported_with_their_fate(world: World) -> None:
    history = world.put_ids("history", 2, 5) | world.put_ids("live", 1, 4, 1000)
    early, late = {500, 501}, {600, 601}
    there = world.base / "history" / "late.parquet"
    drain = world.ask("drain", lambda: there.exists() and world.released_count() >= len(history))

    def on_line(line: Line) -> None:
        if line["kind"] == "running":
            world.put("history", "early", [{"id": 500, "k": 1}, {"id": 501, "k": 1}])
        if line["kind"] == "source_dropped":
            world.put("history", "late", [{"id": 600, "k": 1}, {"id": 601, "k": 1}])
        drain(line)

    run = world.run(mixed(world), on_line)
    assert run.status == "FINISHED"
    reported = {path.rpartition("/")[2]: event.read for event in world.state().late_files for path in event.paths}
    assert reported.keys() == {"early.parquet", "late.parquet"}
    assert reported["late.parquet"] is False
    read = early if reported["early.parquet"] else set()
    assert {*world.released_ids()} == history | read
    assert not late & {*world.released_ids()}
    assert len(run.of("late_files")) == len({*reported.values()})


def test_the_next_run_reports_files_that_came_after_the_end_of_a_source(world: World) -> None:
    """The source's function is no longer called, because the journal has its files.

    The bug noticed late files only in the run in which the source ended.
    """
    expected = world.put_ids("history", 2, 5) | world.put_ids("live", 1, 4, 1000)
    stop = world.ask("stop", lambda: world.state().dropped != {} and world.released_count() >= len(expected))
    assert world.run(mixed(world), stop).status == "STOPPED"
    world.put("history", "late", [{"id": 600, "k": 1}])
    assert world.run(mixed(world), world.ask("drain", lambda: True)).status == "FINISHED"
    (late_files,) = world.state().late_files
    assert (late_files.uid, late_files.read) == ("history", False)
    assert [path.rpartition("/")[2] for path in late_files.paths] == ["late.parquet"]
    assert world.released_ids() == sorted(expected)


def test_moving_history_away_after_it_was_read_does_not_fail_the_job(world: World) -> None:
    expected = world.put_ids("history", 2, 5) | world.put_ids("live", 1, 4, 1000)
    archive = world.base / "archive"
    drain = world.ask("drain", lambda: archive.exists() and world.released_count() >= len(expected))

    def on_line(line: Line) -> None:
        if line["kind"] == "source_dropped":
            (world.base / "history").rename(archive)
        drain(line)

    run = world.run(mixed(world), on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_r11_an_available_now_source_waits_for_other_inputs(world: World) -> None:
    """``availableNow`` takes the current end of a source for the final one.

    If the query started early, it would leave history unread.
    """
    job = bounded_with_ticks(world)
    expected = world.put_ids("history", 4, 2, 1_000_000)
    run = world.run(job, mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    ids = world.released_ids()
    assert [number for number in ids if number >= 1_000_000] == sorted(expected)
    ticks = [number for number in ids if number < 1_000_000]
    assert ticks == [*range(len(ticks))]
    assert ticks
