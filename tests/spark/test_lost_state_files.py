"""State files that real Spark needs, for each kind of stateful operator. The loss of each file is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.sparkfiles.errors import SparkStateLostError
from airflow_provider_ckpt.sparkfiles.state_check import StateCheck
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.spark.running_count import running_count
from tests.spark.spark_folders import newest_file, spark_folder

pytestmark = pytest.mark.slow

Behind = Callable[[DataFrame, DataFrame], DataFrame]


def timed(rows: DataFrame) -> DataFrame:
    return rows.withColumn("ts", F.timestamp_seconds("id")).withWatermark("ts", "1 hour")


def joined(one: DataFrame, two: DataFrame) -> DataFrame:
    return one.join(two.select("id", F.col("k").alias("other")), "id").select("id", "k")


def counted(key: Any, rows: Any, state: Any) -> Any:
    state.update((sum(map(len, rows)) + (state.get[0] if state.exists else 0),))
    return iter([])


OPERATORS: dict[str, Behind] = {
    "join": joined,
    "de-duplication": lambda one, two: one.unionByName(two).dropDuplicates(["id"]),
    "de-duplication in a watermark": lambda one, two: (
        timed(one.unionByName(two)).dropDuplicatesWithinWatermark(["id"]).select("id", "k")
    ),
    "session windows": lambda one, two: (
        timed(one.unionByName(two))
        .groupBy(F.session_window("ts", "5 seconds"), "k")
        .agg(F.count("*").alias("n"))
        .select("k", "n")
    ),
    "any state in Pandas": lambda one, two: running_count(one.unionByName(two)),
    "any state, older": lambda one, two: (
        one.unionByName(two).groupBy("k").applyInPandasWithState(counted, "k long", "n long", "append", "NoTimeout")
    ),
}


def job(world: World, behind: Behind) -> Job:
    job = Job("stateful")
    one, two = (job.source(uid=uid, max_files_per_trigger=1)(_reads(world.path(uid))) for uid in ("one", "two"))
    both = job.transform(inputs={"one": one, "two": two}, uid="both")(lambda one, two: behind(one, two))
    job.sink("out", both, FileSink(world.path("out")))
    return job


def _reads(path: str) -> Callable[[DataStreamReader], DataFrame]:
    return lambda read: read.schema(IDS).parquet(path)


def needed(folder: Path) -> tuple[set[str], set[str]]:
    """Return (files of the newest version of any store, all files below state/), as paths below state/."""
    commit = newest_file(folder / "commits")
    stores_by_id = json.loads(commit.read_text().splitlines()[1])["stateUniqueIds"]
    ids = {version for partitions in stores_by_id.values() for stores in partitions for version in stores}
    state = folder / "state"
    there = {str(path.relative_to(state)) for path in state.rglob("*") if path.is_file()}
    there = {name for name in there if not name.endswith(".crc")}
    newest = {f"{int(commit.name) + 1}_{version}" for version in ids}
    stores = {name for name in there if name.rpartition("/")[2].rpartition(".")[0] in newest}
    assert len({name.rpartition("/")[2].rpartition(".")[0] for name in stores}) == len(ids)
    snapshots = {name for name in stores if name.endswith(".zip")}
    # Spark does not read a change log next to the snapshot of the same version
    return {name for name in stores if name in snapshots or f"{name.rpartition('.')[0]}.zip" not in snapshots}, there


def counts_as_lost(world: World, folder: Path, name: str) -> bool:
    path, kept, commit = folder / "state" / name, world.base / "kept", newest_file(folder / "commits")
    check = StateCheck(world.storage, str(folder.relative_to(world.root)))
    path.rename(kept)
    try:
        check.run(int(commit.name), commit.read_text().splitlines()[1])
    except SparkStateLostError:
        return True
    else:
        return False
    finally:
        kept.rename(path)


@pytest.mark.parametrize("operator", OPERATORS)
def test_only_files_of_the_newest_state_count_as_lost(world: World, operator: str) -> None:
    for number in range(2):
        world.put_ids("one", 1, 10, 100 * number)
        world.put_ids("two", 1, 10, 100 * number + 5)

    def read_all() -> bool:
        return min(world.read_up_to("both", uid) for uid in ("one", "two")) >= 1

    run = world.run(job(world, OPERATORS[operator]), world.ask("stop", read_all))
    assert (run.status, run.cause) == ("STOPPED", None)
    folder = spark_folder(world, "both")
    newest, there = needed(folder)
    needed_files = {name for name in there if counts_as_lost(world, folder, name)}
    assert newest <= needed_files
    older = {name for name in there - newest if name.endswith((".zip", ".changelog"))}
    assert not older & needed_files, "files that no commit needs do not count as lost"
    # the job resumes unharmed
    world.put_ids("one", 1, 10, 300)
    world.put_ids("two", 1, 10, 305)
    run = world.run(
        job(world, OPERATORS[operator]),
        world.ask("stop", lambda: min(world.read_up_to("both", uid) for uid in ("one", "two")) >= 2),
    )
    assert (run.status, run.cause) == ("STOPPED", None)
