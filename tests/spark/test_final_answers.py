"""Aggregates that another query reads.

The query gets only final results of bounded inputs. Totals over changing rows are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from airflow_provider_ckpt.spark.plan.job_plan import plan_job
from airflow_provider_ckpt.spark.query.errors import UnsupportedQueryError
from tests.spark.faults import HookedStorage
from tests.spark.harness import World, read_rows
from tests.spark.jobs import IDS, timed
from tests.support.waiting import wait_until

MODES = ["append", "update", "complete"]


def reads(world: World, folder: str) -> Any:
    return lambda read: timed(read.schema(IDS).parquet(world.path(folder)))


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.count("*").alias("n"))


def totals(world: World, mode: Any, **history: Any) -> Job:
    """Return a job that counts history by key, writes the counts, and sums them in another query."""
    job = Job("totals")
    past = job.source(bounded=True, uid="history", max_files_per_trigger=1, **history)(reads(world, "history"))
    counts = job.transform(inputs=[past], uid="counts", output_mode=mode)(counted)
    total = job.transform(inputs=[counts], uid="total", output_mode=mode)(
        lambda rows: rows.groupBy().agg(F.sum("n").alias("total"))
    )
    job.sink("counts_out", counts, FileSink(world.path("counts_out")))
    job.sink("out", total, FileSink(world.path("out")))
    return job


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_sum_of_counts_is_the_number_of_rows(world: World, mode: str) -> None:
    world.put_ids("history", 5, 10)
    run = world.run(totals(world, mode), mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released() == [{"total": 50}]
    assert sorted((row["k"], row["n"]) for row in world.released("counts_out")) == [(0, 17), (1, 17), (2, 16)]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "update"])
def test_counts_of_a_stopped_run_are_published_once(world: World, mode: str) -> None:
    world.put_ids("history", 6, 10)
    stopped = world.stop_in_batch(totals(world, mode), "counts", mode="streaming")
    assert (stopped.status, stopped.cause) == ("STOPPED", None)
    assert world.released("counts_out") == []
    run = world.run(totals(world, mode), mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released() == [{"total": 60}]
    assert sorted((row["k"], row["n"]) for row in world.released("counts_out")) == [(0, 20), (1, 20), (2, 20)]


@pytest.mark.slow
def test_windows_of_history_are_counted_in_full(world: World) -> None:
    """Spark forgets windows below the watermark in mode "update", and the final answer must hold them."""
    world.put_ids("history", 5, 10)
    job = Job("windows")
    past = job.source(
        bounded=True, uid="history", max_files_per_trigger=1, watermark=("ts", "1 second"), in_order=True
    )(reads(world, "history"))
    counts = job.transform(inputs=[past], uid="counts", output_mode="update")(
        lambda rows: rows.groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n"))
    )
    total = job.transform(inputs=[counts], uid="total", output_mode="update")(
        lambda rows: rows.groupBy("n").agg(F.count("*").alias("windows"))
    )
    job.sink("counts_out", counts, FileSink(world.path("counts_out")))
    job.sink("out", total, FileSink(world.path("out")))
    run = world.run(job, mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released() == [{"n": 10, "windows": 5}]


def joined(world: World, mode: Any) -> Job:
    """Return a job that joins live rows with the totals of history."""
    job = Job("joined")
    past = job.source(bounded=True, uid="history", max_files_per_trigger=1)(reads(world, "history"))
    feed = job.source(uid="live")(reads(world, "live"))
    counts = job.transform(inputs=[past], uid="counts", output_mode=mode)(counted)

    @job.transform(inputs={"rows": [feed], "of_key": [counts]})
    def matched(rows: DataFrame, of_key: DataFrame) -> DataFrame:
        return rows.select("id", "k").join(of_key, "k").select("id", "k", "n")

    job.sink("out", matched, FileSink(world.path("out")))
    return job


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_each_live_row_is_joined_once_with_the_total_of_history(world: World, mode: str) -> None:
    world.put_ids("history", 4, 6)
    world.put_ids("live", 1, 4, 1_000)
    run = world.run(joined(world, mode), world.drain_at(4))
    assert (run.status, run.cause) == ("FINISHED", None)
    rows = sorted((row["id"], row["k"], row["n"]) for row in world.released())
    assert rows == [(1_000, 1, 8), (1_001, 2, 8), (1_002, 0, 8), (1_003, 1, 8)]


# ---- live rows that change


def with_consumer(world: World, mode: Any, then: Any, *, source: Any = None) -> Job:
    job = Job("behind")
    feed = job.source(uid="live", **source or {})(reads(world, "live"))
    counts = job.transform(inputs=[feed], uid="counts", output_mode=mode)(counted)
    total = job.transform(inputs=[counts], uid="total", output_mode="append" if mode == "append" else mode)(then)
    job.sink("counts_out", counts, FileSink(world.path("counts_out")))
    job.sink("out", total, FileSink(world.path("out")))
    return job


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_state_over_changing_rows_is_refused(spark: SparkSession, world: World, mode: str) -> None:
    summed = with_consumer(world, mode, lambda rows: rows.groupBy().agg(F.sum("n")))
    with pytest.raises(
        UnsupportedQueryError, match=rf"'total' .*rows of 'counts', which change \(output_mode '{mode}'\)"
    ):
        plan_job(spark, summed, world.options())


def test_state_after_a_stateless_step_over_changing_rows_is_refused(spark: SparkSession, world: World) -> None:
    job = with_consumer(world, "update", lambda rows: rows.where("n > 0"))
    further = job.transform(inputs=["total"], uid="further", output_mode="update")(lambda rows: rows.distinct())
    job.sink("further_out", further, FileSink(world.path("further_out")))
    with pytest.raises(UnsupportedQueryError, match=r"'further'.*rows of 'total', which change"):
        plan_job(spark, job, world.options())


def test_a_sink_after_a_stateless_step_over_changing_rows_gets_updates(spark: SparkSession, world: World) -> None:
    job = Job("behind")
    feed = job.source(uid="live")(reads(world, "live"))
    counts = job.transform(inputs=[feed], uid="counts", output_mode="update")(counted)
    shown = job.transform(inputs=[counts], uid="shown")(lambda rows: rows.where("n > 0"))
    once = job.transform(inputs=[feed], uid="once", output_mode="update")(lambda rows: rows.dropDuplicates(["id"]))
    for uid, given in (("counts_out", counts), ("shown_out", shown), ("once_out", once)):
        job.sink(uid, given, FileSink(world.path(uid)))
    plan = plan_job(spark, job, world.options())
    modes = {uid: given.output_mode for uid, given in plan.sink_inputs.items()}
    assert modes == {"counts_out": "update", "shown_out": "update", "once_out": "append"}


def test_state_over_append_only_rows_is_allowed(spark: SparkSession, world: World) -> None:
    job = Job("once")
    feed = job.source(uid="live")(reads(world, "live"))
    once = job.transform(inputs=[feed], uid="once", output_mode="update")(lambda rows: rows.dropDuplicates(["id"]))
    counts = job.transform(inputs=[once], uid="counts", output_mode="update")(counted)
    job.sink("once_out", once, FileSink(world.path("once_out")))
    job.sink("out", counts, FileSink(world.path("out")))
    assert plan_job(spark, job, world.options())


def test_a_refusal_does_not_advise_an_update_mode(spark: SparkSession, world: World) -> None:
    job = with_consumer(world, "append", lambda rows: rows.where("n > 0"))
    with pytest.raises(UnsupportedQueryError, match="give the sources a watermark") as refused:
        plan_job(spark, job, world.options())
    assert "or choose another output_mode" not in str(refused.value)
    assert "'total' reads the rows" in str(refused.value)


def test_a_bounded_aggregate_without_a_reader_keeps_its_mode(spark: SparkSession, world: World) -> None:
    world.put_ids("history", 1, 2)
    job = Job("counts")
    past = job.source(bounded=True, uid="history")(reads(world, "history"))
    counts = job.transform(inputs=[past], uid="counts", output_mode="update")(counted)
    job.sink("out", counts, FileSink(world.path("out")))
    plan = plan_job(spark, job, world.options(mode="streaming"))
    assert plan.sink_inputs["out"].output_mode == "update"


@pytest.mark.slow
def test_a_stateless_step_reads_changing_rows_batch_by_batch(world: World) -> None:
    """Two versions of a row in one batch have no order, and a sink could keep the earlier one."""
    world.put_ids("live", 6, 6)
    job = Job("versions")
    feed = job.source(uid="live", max_files_per_trigger=1)(reads(world, "live"))
    counts = job.transform(inputs=[feed], uid="counts", output_mode="update")(counted)
    shown = job.transform(inputs=[counts], uid="shown")(lambda rows: rows.withColumn("twice", F.col("n") * 2))
    job.sink("counts_out", counts, FileSink(world.path("counts_out")))
    job.sink("out", shown, FileSink(world.path("out")))

    def hook(verb: str, path: str) -> None:
        if verb == "replace" and "/shown/0/prepared/" in path:
            wait_until(lambda: world.newest_batch("counts") >= 5, "batches that wait")

    drain = world.ask("drain", lambda: world.released_count() >= 18)
    run = world.run(job, drain, storage=HookedStorage(world.storage, hook))
    assert (run.status, run.cause) == ("FINISHED", None)
    batches: dict[str, list[int]] = {}
    for manifest in read_manifests(world.path("out")):
        for file in manifest.files:
            path = Path(world.path("out")) / unquote(file.path)
            batches.setdefault(file.path.split("-")[3], []).extend(row["k"] for row in read_rows(path))
    assert [sorted(batches[name]) for name in sorted(batches)] == [[0, 1, 2]] * 6
    assert max(row["twice"] for row in world.released()) == 24
