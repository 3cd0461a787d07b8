"""Changes to queries of a running job: functions, limits and state partitions.

Every row is released once in all cases.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.journal.errors import JournalUnwritableError
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.subtasklog.records import Batch
from tests.spark.counting_job import UserScript, check_counting, counting, counting_version, state_partitions
from tests.spark.faults import HookedStorage
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def most_rows(world: World, after: int) -> int:
    """Return the largest number of rows of a batch of the live query after that log entry."""
    later = [record for number, record in world.records("live") if number > after and isinstance(record, Batch)]
    return max(batch.rows or 0 for batch in later)


def test_a_query_continues_with_another_function(world: World) -> None:
    world.put_ids("live", 2, 10)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        script.put(20)
        change = Reconfiguration().assign_execution_logic("marked", counting_version(world, "v2"))
        outcomes.append(script.change(change))
        script.put(30)

    with UserScript(world, work):
        run = world.run(counting(world))

    assert (run.status, [outcome.result.value for outcome in outcomes]) == ("STOPPED", ["completed"]), (
        run.cause,
        outcomes,
    )
    check_counting(world, 40)
    by = {row["id"]: row["by"] for row in world.released()}
    assert {by[i] for i in range(30)} == {"one"}
    assert {by[i] for i in range(30, 40)} == {"two"}


def test_state_of_a_query_is_repartitioned_while_other_queries_run(world: World) -> None:
    world.put_ids("live", 2, 10)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        script.put(20)
        outcomes.append(script.change(Reconfiguration().assign_workload("counts", state_partitions=3)))
        script.put(30)

    with UserScript(world, work):
        run = world.run(counting(world))
    assert (run.status, [outcome.result.value for outcome in outcomes]) == ("STOPPED", ["completed"]), (
        run.cause,
        outcomes,
    )
    check_counting(world, 40)
    state = world.state()
    assert state.settings["counts"].state_partitions == 3
    assert state.definition is not None
    assert state.definition.vertices["counts"].shuffle_partitions == 3
    assert state_partitions(world) == 3

    with UserScript(world, lambda script: script.put(40)):
        again = world.run(counting(world))
    assert again.status == "STOPPED", again.cause
    check_counting(world, 50)
    assert state_partitions(world) == 3


# ---- changes that do not fit: the job continues as before and reports the reason


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ({"marked": 'return rows.withColumn("by", F.lit(2))'}, "it has other columns"),
        ({"marked": 'return rows.groupBy("k").count()'}, "it has other columns"),
        (
            {"marked": 'return rows.dropDuplicates(["id"]).withColumn("by", F.lit("two"))'},
            "it keeps state, and did not",
        ),
        ({"marked": 'raise ValueError("no such thing")'}, "ValueError: no such thing"),
        ({"marked": 'raise KeyboardInterrupt("not now")'}, "KeyboardInterrupt: not now"),
        ({"marked": "return rows +"}, "SyntaxError"),
        (
            {"counts": 'return rows.groupBy("k").agg(F.count("*").alias("n"), F.last("id").alias("last"))'},
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        ),
    ],
    ids=["types", "columns", "state", "raises", "interrupts", "syntax", "state schema"],
)
def test_an_unfit_change_leaves_the_job_unchanged(world: World, version: dict[str, str], why: str) -> None:
    world.put_ids("live", 1, 10)
    outcomes: list[RequestOutcome] = []
    (uid,) = version

    def work(script: UserScript) -> None:
        script.put(10)
        change = Reconfiguration().assign_execution_logic(uid, counting_version(world, "v2", **version))
        outcomes.append(script.change(change))
        script.put(20)

    with UserScript(world, work):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    (outcome,) = outcomes
    assert outcome.result.value == "failed"
    assert why in outcome.detail
    assert "while the job ran" not in outcome.detail, "no query has used it"
    assert outcome.detail.endswith("the job continues unchanged")
    check_counting(world, 30)
    assert world.state().settings == {}
    assert not list(world.root.rglob("trial/*")), "the trial left no files"


def test_a_source_function_with_other_files_is_refused(world: World) -> None:
    world.put_ids("live", 1, 10)
    world.put_ids("elsewhere", 1, 10)
    outcomes: list[RequestOutcome] = []
    path = Path(counting_version(world, "v2").removesuffix(":job"))
    path.write_text(path.read_text().replace(world.path("live"), world.path("elsewhere")))

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(script.change(Reconfiguration().assign_execution_logic("live", f"{path}:job")))

    with UserScript(world, work):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    assert "source live reads parquet" in outcomes[0].detail


def test_executors_on_a_local_master_are_refused(world: World) -> None:
    world.put_ids("live", 1, 10)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(script.change(Reconfiguration().assign_resources("counts", executors=2)))
        script.put(20)

    with UserScript(world, work):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    assert "its Spark has no executors (master local[2]); run the job on a cluster to change them" in outcomes[0].detail
    check_counting(world, 30)
    assert world.state().settings == {}


# ---- limits, and settings for later runs


def test_changed_limits_and_intervals_hold_for_later_runs(world: World) -> None:
    world.put_ids("live", 2, 10)
    change = Reconfiguration().assign_workload("live", max_files_per_batch=3, trigger_interval="200ms")
    change.assign_resources("counts", pool_weight=3).assign_execution_logic("counts", counting_version(world, "v2"))
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        script.put(20)
        outcomes.append(script.change(change))
        script.put(30, files=8)

    with UserScript(world, work):
        run = world.run(counting(world))
    assert (run.status, [outcome.result.value for outcome in outcomes]) == ("STOPPED", ["completed"]), (
        run.cause,
        outcomes,
    )
    check_counting(world, 110)
    assert 10 < most_rows(world, after=0) <= 30, "at most three files at once; one before the change"
    so_far = world.records("live")[-1][0]
    (done,) = world.state().reconfigurations
    assert set(done.took) == {"live", "counts"}

    with UserScript(world, lambda script: script.put(110, files=8)):
        again = world.run(counting(world))
    assert again.status == "STOPPED", again.cause
    check_counting(world, 190)
    assert 10 < most_rows(world, after=so_far) <= 30


@pytest.mark.parametrize("limit", ["max_files_per_batch", "max_bytes_per_batch"])
def test_an_assigned_limit_overrides_the_functions_own(world: World, limit: str) -> None:
    """For Spark the function's byte limit is the same option.

    Spark does not start a query that has both a file limit and a byte limit.
    """
    world.put_ids("live", 2, 10)
    job = Job("limited")

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).option("maxbytespertrigger", 100_000).parquet(world.path("live"))

    @job.transform(inputs=[live], chain=False)
    def marked(rows: DataFrame) -> DataFrame:
        return rows

    job.sink("out", marked, FileSink(world.path("out")))
    outcomes: list[RequestOutcome] = []
    so_far: list[int] = []

    def work(script: UserScript) -> None:
        wait_until(lambda: world.released_count() >= 20, "released rows")
        outcomes.append(script.change(Reconfiguration().assign_workload("live", **{limit: 1})))
        so_far.append(world.records("live")[-1][0])
        world.put_ids("live", 6, 10, start=20)
        wait_until(lambda: world.released_count() >= 80 or world.state().status != "RUNNING", "rows after the change")

    with UserScript(world, work):
        run = world.run(job)
    assert (run.status, [outcome.result.value for outcome in outcomes]) == ("STOPPED", ["completed"]), (
        run.cause,
        outcomes,
    )
    assert world.released_ids() == list(range(80))
    assert most_rows(world, after=so_far[0]) == 10


# ---- a driver that dies during a change


def dies_after_entry(world: World, entry: str) -> HookedStorage:
    """Return a storage that fails once the journal has ``entry``."""
    gone: list[str] = []

    def hook(verb: str, path: str) -> None:
        if gone:
            raise StorageTransientError(verb=verb, uri=path, reason="the driver is dead")
        if verb == "create" and "/journal/" in path and has_entry():
            gone.append(path)
            raise StorageTransientError(verb=verb, uri=path, reason="the driver is dead")

    def has_entry() -> bool:
        journal = Path(world.root) / "job" / "journal"
        while True:
            with contextlib.suppress(FileNotFoundError):  # the journal is being compacted
                return any(entry in entry_file.read_text() for entry_file in journal.glob("*.json"))

    return HookedStorage(world.storage, hook)


@pytest.mark.parametrize("change", ["logic", "state"])
def test_r21_the_next_driver_applies_a_change_decided_before_a_crash(world: World, change: str) -> None:
    world.put_ids("live", 2, 10)
    changes = Reconfiguration()
    if change == "logic":
        changes.assign_execution_logic("marked", counting_version(world, "v2"))
    else:
        changes.assign_workload("counts", state_partitions=5)

    def work(script: UserScript) -> None:
        script.put(20)
        script.client.reconfigure(changes)
        wait_until(lambda: script.client.read_state().reconfigured == 1, "the decision")

    with pytest.raises(JournalUnwritableError), UserScript(world, work, end="nothing"):
        world.run(counting(world), storage=dies_after_entry(world, '"Reconfigured"'))
    assert world.state().reconfigured == 1
    with UserScript(world, lambda script: script.put(30)):
        again = world.run(counting(world))
    assert again.status == "STOPPED", again.cause
    check_counting(world, 40)
    (recorded,) = world.state().reconfigurations
    assert (recorded.outcome.result.value, dict(recorded.took)) == ("accepted", {}), "decided, and not completed"
    if change == "logic":
        assert {row["by"] for row in world.released() if row["id"] >= 30} == {"two"}
    else:
        assert state_partitions(world) == 5
