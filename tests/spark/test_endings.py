"""Stop, drain and finish are three different ends.

A stopped job resumes where it was, and a finished one does nothing.
"""

from __future__ import annotations

from threading import Thread

import pytest

from airflow_provider_ckpt.coordinator.errors import IllegalGraphChangeError
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.spark.query.errors import SchemaChangedError, UnsupportedQueryError
from airflow_provider_ckpt.spark.task.streaming.running_query import RunningQuery
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.records import EndOfData
from airflow_provider_ckpt.task import local_gateway
from tests.spark.faults import HookedStorage
from tests.spark.harness import Line, Run, World
from tests.spark.jobs import depths, joined, mixed, windows
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def test_d6_a_stopped_job_resumes_and_a_drained_job_is_finished(world: World) -> None:
    first = world.put_ids("history", 4, 2) | world.put_ids("live", 2, 2, 1000)
    stopped = world.stop_in_batch(mixed(world), "doubled")
    assert stopped.status == "STOPPED"
    state = world.state()
    assert state.last_released == state.last_completed  # the stop is answered after the release
    assert state.end_of_data == set()
    assert not [record for _, record in world.records("doubled") if isinstance(record, EndOfData)]
    assert world.released_ids() == [0, 1, 1000, 1001, 1002, 1003]

    second = first | world.put_ids("live", 2, 2, 2000)
    drained = world.run(mixed(world), world.drain_at(len(second)))
    assert (drained.status, drained.cause) == ("FINISHED", None)
    assert drained.kinds[0] == "resumed"
    assert world.released_ids() == sorted(second)
    assert world.state().end_of_data == {"doubled/0"}

    world.put_ids("live", 2, 2, 3000)
    before = world.everything_under_root()
    again = world.run(mixed(world))
    assert (again.status, again.kinds) == ("FINISHED", ["finished"])
    assert world.everything_under_root() == before
    assert world.released_ids() == sorted(second)


def test_a_stopped_job_with_edges_resumes(world: World) -> None:
    expected = world.put_ids("history", 4, 2) | world.put_ids("live", 3, 2, 1000)
    first = world.stop_in_batch(depths(world), "history")
    assert (first.status, world.released_ids("raw")) == ("STOPPED", [0, 1])
    second = world.run(depths(world), world.drain_at(len(expected)))
    assert (second.status, second.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert world.released_ids("raw") == [*range(8)]


def test_a_stop_for_an_ended_epoch_does_not_stop_the_next_driver(world: World) -> None:
    """The request names its epoch, so it does not stop the next driver."""
    world.put_ids("history", 2, 2)
    expected = world.put_ids("live", 1, 2, 1000) | {*range(4)}
    world.run(mixed(world), world.ask("stop", lambda: world.released_count() >= len(expected)))
    world.request("stop")  # for the epoch that has ended
    second = world.run(mixed(world), world.ask("drain", lambda: True))
    assert second.status == "FINISHED"
    assert world.released_ids() == sorted(expected)


def test_an_empty_history_is_warned_of(world: World) -> None:
    expected = world.put_ids("live", 1, 2, 1000)
    run = world.run(mixed(world, allow_empty=True), world.drain_at(len(expected)))
    assert run.status == "FINISHED"
    assert [line["message"] for line in run.of("warning")] == [
        f"bounded source history ends at once: there is no file in {world.path('history')}"
    ]


@pytest.mark.parametrize("chain", [True, False], ids=["inline", "own vertex"])
def test_a_drain_reads_history_to_its_end(world: World, chain: bool) -> None:
    expected = world.put_ids("history", 8, 2) | world.put_ids("live", 1, 2, 1000)
    run = world.run(mixed(world, chain=chain), world.ask("drain", lambda: True))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_r3_a_second_driver_fences_the_first(world: World) -> None:
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, 1000)
    second: list[Run] = []

    def run_again() -> None:
        second.append(world.run(mixed(world), world.drain_at(len(expected))))

    takers: list[Thread] = []

    def on_line(line: Line) -> None:
        if line["kind"] == "running":
            takers.append(Thread(target=run_again))
            takers[0].start()

    try:
        with pytest.raises((FencedError, LogFencedError), match="epoch 2"):
            world.run(mixed(world), on_line)
    finally:
        for taker in takers:
            taker.join()
    assert second[0].kinds[0] == "resumed"
    assert second[0].status == "FINISHED"
    assert world.released_ids() == sorted(expected)


def test_r12_a_stop_during_the_final_batch_does_not_lose_its_windows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The final batch is planned and has not run. There is no end of data until it has run."""
    monkeypatch.setattr(local_gateway, "LAST_BATCH", 0.0)  # the batch is interrupted early
    stopped: list[RunningQuery] = []
    stop = RunningQuery.stop

    def note_and_stop(query: RunningQuery) -> None:
        stopped.append(query)
        stop(query)

    monkeypatch.setattr(RunningQuery, "stop", note_and_stop)
    world.put_ids("history", 3, 10)
    spark_folders = f"{world.job_id}/vertices/counts/0/spark"
    held: list[str] = []

    def hold(verb: str, path: str) -> None:
        """Hold the final batch before it is prepared."""
        if verb != "replace" or "/prepared/" not in path or held:
            return
        attempts = [name for name in world.storage.list(spark_folders) if "." not in name]
        if any(SparkFolder(world.storage, f"{spark_folders}/{attempt}").is_final() for attempt in attempts):
            held.append(path)
            world.request("stop")
            wait_until(lambda: any(query._end.is_interrupted for query in stopped), "the stop of the query")
            raise StorageTransientError(verb=verb, uri=path, reason="interrupted")

    job = windows(world, live_too=False)
    first = world.run(job, storage=HookedStorage(world.storage, hold), mode="streaming")
    assert (first.status, len(held)) == ("STOPPED", 1)
    assert not world.state().end_of_data
    second = world.run(job, mode="streaming")
    assert (second.status, second.cause) == ("FINISHED", None)
    assert sorted((row["id"], row["n"]) for row in world.released()) == [(0, 10), (10, 10), (20, 10)]


# ---- permitted changes between two runs


def stopped_once(world: World) -> None:
    """Stop a job in the middle of history, with something released.

    Without a release a changed job restarts from scratch.
    """
    world.put_ids("history", 4, 2)
    world.put_ids("live", 1, 2, 1000)
    assert world.stop_in_batch(mixed(world), "doubled").status == "STOPPED"


def test_d16_a_changed_job_is_refused_and_nothing_is_written(world: World) -> None:
    stopped_once(world)
    before = world.everything_under_root()
    with pytest.raises(IllegalGraphChangeError, match="gone: history"):
        world.run(mixed(world, uid="past"))
    with pytest.raises(IllegalGraphChangeError, match="moved to another query: history"):
        world.run(mixed(world, chain=False))
    with pytest.raises(IllegalGraphChangeError, match="gone: out"):
        world.run(mixed(world, sinks=("copy",)))
    with pytest.raises(SchemaChangedError, match="twice"):
        world.run(mixed(world, column="thrice"))
    assert world.everything_under_root() == before


def test_r13_a_watermarked_join_with_history_is_refused(world: World) -> None:
    with pytest.raises(UnsupportedQueryError, match="'history' of 'matched'"):
        world.run(joined(world, watermarks=True))
    assert world.everything_under_root() == []
