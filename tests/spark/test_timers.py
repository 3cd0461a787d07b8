"""State that waits for timers of processing time: a drain discards it with a warning, or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.streaming.state import GroupState

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.errors import RequestRefusedError
from tests.spark.harness import Line, World
from tests.spark.jobs import IDS

pytestmark = pytest.mark.slow


def waiting(world: World, timeout: str = "ProcessingTimeTimeout") -> Job:
    """Return a job that outputs each key an hour after its last row."""
    job = Job("waiting")

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    def remember(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        state.update((len(list(frames)),))
        if timeout == "ProcessingTimeTimeout":
            state.setTimeoutDuration(3_600_000)
        yield pd.DataFrame({"id": [key[0]]})

    @job.transform(inputs=[live])
    def late(rows: DataFrame) -> DataFrame:
        return rows.groupBy("id").applyInPandasWithState(remember, "id long", "n long", "append", timeout)

    job.sink("out", late, FileSink(world.path("out")))
    return job


def test_a_drain_is_refused_unless_timers_are_discarded(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.put_ids("live", 1, 3)
    client = JobClient(str(world.root), world.job_id)
    messages: list[str] = []

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and world.released_count() == 3 and not messages:
            with pytest.raises(RequestRefusedError, match="discards state that waits for timers") as refused:
                client.drain()
            messages.append(str(refused.value))
            assert main(["drain", world.job_id, "--root", str(world.root)]) != 0
            messages.append(capsys.readouterr().err)
            assert not world.state().draining
            assert main(["drain", world.job_id, "--root", str(world.root), "--discard-timers"]) == 0

    run = world.run(waiting(world), on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert all("late" in text and "--discard-timers" in text for text in messages)
    assert len(messages) == 2
    (warning,) = [line["message"] for line in run.of("warning")]
    assert warning == "the end of late/0 discards 3 rows of state that waited for processing time"


def test_a_run_with_drain_after_warns_of_timers_at_its_start(world: World) -> None:
    world.put_ids("live", 1, 3)
    run = world.run(waiting(world), drain_after=0.5)
    assert run.status == "FINISHED"
    assert "discard state of late" in run.of("warning")[0]["message"]


def test_state_without_timers_is_drained_without_a_warning(world: World) -> None:
    world.put_ids("live", 1, 3)
    client = JobClient(str(world.root), world.job_id)
    asked: list[str] = []

    def on_line(line: Line) -> None:
        if line["kind"] == "released" and world.released_count() == 3 and not asked:
            asked.append(client.drain().name)

    run = world.run(waiting(world, "NoTimeout"), on_line)
    assert run.status == "FINISHED"
    assert run.of("warning") == []
