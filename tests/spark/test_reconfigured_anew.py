"""Jobs that restart from scratch after something was changed while they ran."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from tests.spark.counting_job import UserScript, counting_version
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def counting(world: World, folder: str) -> Job:
    """Return a job that fails at a row with the id -1."""
    job = Job("counting")

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        good = F.when(F.col("id") < 0, F.raise_error(F.lit("bad row"))).otherwise(F.col("id"))
        return read.schema(IDS).parquet(world.path(folder)).withColumn("id", good)

    @job.transform(inputs=[live], output_mode="update")
    def counts(rows: DataFrame) -> DataFrame:
        return rows.groupBy("k").agg(F.count("*").alias("n"), F.max("id").alias("last"))

    job.sink("counted", counts, FileSink(world.path("counted")))
    return job


def test_the_journal_records_the_partitions_of_the_existing_state(world: World) -> None:
    """Every later run compares itself with the recorded number."""

    def work(script: UserScript) -> None:
        cut = Reconfiguration().assign_workload("counts", state_partitions=3)
        wait_until(lambda: script.change(cut).is_carried_out, "a change")
        world.put("first", "bad", [{"id": -1, "k": 0}])

    world.put_ids("first", 1, 10)
    with UserScript(world, work, end="nothing"):
        run = world.run(counting(world, "first"), checkpoint_interval=600, restart_attempts=0)
    assert (run.status, world.state().last_completed) == ("RESTARTING", 0), run.cause

    for files in (1, 2, 3):
        world.put_ids("second", 1, 10, 10 * files)
        rows = 10 * files
        with UserScript(world, lambda _, rows=rows: wait_until(lambda: counted(world) == rows, "counts")):  # type: ignore[misc]
            run = world.run(counting(world, "second"))
        assert run.status == "STOPPED", run.cause
        assert bool(run.of("anew")) is (files == 1)
        definition = world.state().definition
        assert definition is not None
        assert definition.vertices["counts"].shuffle_partitions == 3


def counted(world: World) -> int:
    newest: dict[int, int] = {}
    for row in world.released("counted"):
        newest[row["k"]] = max(newest.get(row["k"], 0), row["n"])
    return sum(newest.values())


def moving(world: World, folder: str, *, moved: bool) -> Job:
    """Return a job in which ``marked`` is a separate query.

    ``moved``: ``marked`` is part of the query of ``behind`` and returns one more column.
    """
    job = Job("counting")

    @job.source(max_files_per_trigger=1, chain=False)
    def live(read: DataStreamReader) -> DataFrame:
        good = F.when(F.col("id") < 0, F.raise_error(F.lit("bad row"))).otherwise(F.col("id"))
        return read.schema(IDS).parquet(world.path(folder)).withColumn("id", good)

    @job.transform(inputs=[live])
    def marked(rows: DataFrame) -> DataFrame:
        if not moved:
            return rows.withColumn("by", F.lit("one"))
        return rows.withColumn("by", F.lit("mended")).withColumn("amount", F.col("id") * 10)

    last = job.transform(inputs=[marked], uid="behind")(lambda rows: rows) if moved else marked
    job.sink("out", last, FileSink(world.path("out")))
    return job


def test_a_function_assigned_for_another_query_is_not_used(
    world: World,
) -> None:
    """The bug recorded the columns of that function, but ran the functions that the job declares.

    The next run of the same file was refused because of that.
    """
    given = Reconfiguration().assign_execution_logic("marked", counting_version(world, "v2"))

    def work(script: UserScript) -> None:
        wait_until(lambda: script.change(given).is_carried_out, "a change")
        world.put("first", "bad", [{"id": -1, "k": 0}])

    world.put_ids("first", 1, 10)
    with UserScript(world, work, end="nothing"):
        run = world.run(moving(world, "first", moved=False), checkpoint_interval=600, restart_attempts=0)
    assert (run.status, world.state().last_completed) == ("RESTARTING", 0), run.cause
    assert world.state().settings["marked"].logic

    for files in (1, 2):
        world.put_ids("second", 1, 10, 10 * files)
        rows = 10 * files
        with UserScript(world, lambda _, rows=rows: wait_until(lambda: world.released_count() == rows, "rows")):  # type: ignore[misc]
            run = world.run(moving(world, "second", moved=True))
        assert run.status == "STOPPED", run.cause
        warned = [line for line in run.of("warning") if "marked was given" in line["message"]]
        assert (len(run.of("anew")), len(warned)) == ((1, 1) if files == 1 else (0, 0))
        assert {(row["by"], row["amount"] - row["id"] * 10) for row in world.released()} == {("mended", 0)}
        assert world.state().settings == {}
