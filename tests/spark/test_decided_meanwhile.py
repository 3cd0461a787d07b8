"""Two drivers prepare a run at the same time.

The driver that claims last follows the decisions that the other driver has recorded in the meantime. It does not
follow the state with which it made its plan.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from tests.spark.faults import BATCH, HookedStorage, RefusedEntries, before_claim
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.spark.split_jobs import ids_of, only_splits, splits

pytestmark = pytest.mark.slow


def dies_in(world: World, job: Job, storage: Storage, **options: Any) -> None:
    with suppress(TransientError):
        assert world.run(job, storage=storage, **options).status == "RESTARTING"


def gone_before_it_has_frozen(world: World, job: Job) -> None:
    """Let a driver die between recording its plan and freezing its sources.

    Listing other sources takes that long.
    """

    def hook(verb: str, path: str) -> None:
        if verb == "create" and "/frozen/" in path:
            raise StorageTransientError(verb=verb, uri=path, reason="gone")

    dies_in(world, job, HookedStorage(world.storage, hook))
    assert world.state().plan is not None
    assert world.state().frozen == {}


def test_r11_a_list_of_splits_frozen_by_another_driver_holds(world: World) -> None:
    """The function that lists the splits now returns other splits.

    Without R11 rows of both lists were released, or of parts of them.
    """
    earlier, later = splits(6), splits(9)[3:]
    gone_before_it_has_frozen(world, only_splits(world, earlier))

    def the_other_one_reads_some() -> None:
        read = world.run(only_splits(world, earlier), storage=RefusedEntries(world.storage, "parts", '"part-4"'))
        assert read.status == "RESTARTING"
        assert world.state().frozen["parts"].count == len(earlier)

    run = world.run(only_splits(world, later), storage=before_claim(world.storage, the_other_one_reads_some))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == ids_of(earlier)
    assert any("it continues with the earlier splits" in line["message"] for line in run.of("warning"))


def with_column(world: World, name: str) -> Job:
    """Return a job with a column ``name`` that a second query reads."""
    job = Job("columns")

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live")).withColumn(name, F.col("id"))

    @job.transform(inputs=[live], chain=False)
    def made(rows: DataFrame) -> DataFrame:
        return rows.withColumn("made", F.col(name))

    job.sink("out", made, FileSink(world.path("out")))
    return job


def test_r4_a_job_is_compared_with_a_definition_claimed_meanwhile(world: World) -> None:
    """Each of the two changes is allowed.

    Without the comparison this driver read the other driver's rows with its own columns, as nulls.
    """
    expected = world.put_ids("live", 4, 2)
    never: dict[str, Any] = {"checkpoint_interval": 600}
    dies_in(world, with_column(world, "a"), RefusedEntries(world.storage, "live", BATCH), **never)

    def the_other_one_publishes() -> None:
        dies_in(world, with_column(world, "b"), RefusedEntries(world.storage, "made", BATCH), **never)
        assert any(getattr(record, "files", ()) for _, record in world.records("live"))

    storage = before_claim(world.storage, the_other_one_publishes)
    run = world.run(with_column(world, "a"), world.drain_at(len(expected)), storage=storage)
    assert (run.status, run.cause) == ("FINISHED", None)
    rows = world.released()
    assert sorted(row["id"] for row in rows) == sorted(expected)
    assert {row["made"] == row["id"] for row in rows} == {True}
    assert len(run.of("anew")) == 1
