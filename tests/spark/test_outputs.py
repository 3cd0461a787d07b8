"""The work of foreachBatch: it consumes a batch once and stages it for all sinks (R5, R18)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.errors import InvalidInputError, TransientError
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sinks.errors import SinkContractError
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from airflow_provider_ckpt.sinks.file.occupancy import Mode
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, SinkContext, StageRequest
from airflow_provider_ckpt.spark.task.outputs import Outputs, PartitionTarget
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.prepared_store import Prepared, PreparedStore
from airflow_provider_ckpt.subtasklog.records import PartitionFile
from airflow_provider_ckpt.task.sink_wait import SinkWait
from tests.spark.harness import World, read_rows
from tests.spark.jobs import IDS

pytestmark = pytest.mark.slow


@pytest.fixture
def storage(world: World) -> Storage:
    return open_storage(world.base)


def bind_sinks(world: World, *uids: str) -> dict[str, BoundSink]:
    return {uid: FileSink(world.path(uid)).bind(SinkContext("job", uid)) for uid in uids}


def outputs(spark: SparkSession, world: World, *sinks: str, partition: bool = False) -> Outputs:
    target = PartitionTarget("p", "p/edge/data") if partition else None
    return Outputs(spark, open_storage(world.base), AttemptId(1, 0, "x"), bind_sinks(world, *sinks), target, "scratch")


@pytest.mark.parametrize(("sinks", "partition"), [(1, False), (2, False), (1, True), (2, True), (0, True), (0, False)])
def test_r18_a_batch_is_computed_once_for_all_readers(
    spark: SparkSession, world: World, sinks: int, partition: bool
) -> None:
    computed = spark.sparkContext.accumulator(0)

    def count(number: int) -> int:
        computed.add(1)
        return number

    frame = spark.range(10).repartition(2).withColumn("n", F.udf(count, "long")("id"))
    uids = [f"s{number}" for number in range(sinks)]
    prepared = outputs(spark, world, *uids, partition=partition).stage(frame, 0)
    assert computed.value == 10
    assert {uid: handle["rows"] for uid, handle in prepared.handles.items()} == dict.fromkeys(uids, 10)
    assert prepared.rows == (10 if partition else 0)
    if partition:
        rows = [row for file in prepared.files for row in read_rows(world.base / "p" / file.path)]
        assert sorted(row["id"] for row in rows) == [*range(10)]
    assert open_storage(world.base).files("scratch") == []


class OddSink(BoundSink):
    """A user-defined sink with user-defined handles."""

    def __init__(self, answer: Callable[[StageRequest], Any]) -> None:
        self.answer = answer

    def stage(self, frame: DataFrame, request: StageRequest) -> Handle:
        handle: Handle = self.answer(request)
        return handle

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        raise NotImplementedError

    def last_released(self) -> int:
        return 0

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        return []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda request: None, "a value of type NoneType"),
        (lambda request: {"rows": 1}, 'an object whose "id" is not that of the request'),
        (lambda request: {"id": request.id, "rows": 1, "at": date(2026, 1, 2)}, "no JSON .*date is not JSON"),
        (lambda request: {"id": request.id, "rows": 1, "at": float("nan")}, "no JSON"),
        (lambda request: {"id": request.id, "rows": 1, "n": 10**101}, "no log can hold .*more than 100 digits"),
        (lambda request: {"id": request.id, "rows": 1, "a": json.loads("[" * 95 + "]" * 95)}, "nested deeper"),
        (lambda request: {"id": request.id}, 'an object whose "rows" is no whole number'),
        (lambda request: {"id": request.id, "rows": "5"}, 'an object whose "rows" is no whole number'),
    ],
)
def test_a_handle_unfit_for_the_log_is_refused_with_its_sink(
    spark: SparkSession, world: World, answer: Callable[[StageRequest], Any], message: str
) -> None:
    out = Outputs(spark, open_storage(world.base), AttemptId(1, 0, "x"), {"own": OddSink(answer)}, None, "scratch")
    with pytest.raises(SinkContractError, match=rf"sink 'own' \(OddSink\) returned from stage\(\) .*{message}"):
        out.stage(spark.range(1), 0)


def test_r18_all_sinks_get_the_same_rows_of_a_nondeterministic_batch(spark: SparkSession, world: World) -> None:
    sinks = bind_sinks(world, "one", "two")
    out = Outputs(spark, open_storage(world.base), AttemptId(1, 0, "x"), sinks, None, "scratch")
    prepared = out.stage(spark.range(5).withColumn("r", F.rand()), 0)
    for uid, sink in sinks.items():
        sink.release([dict(prepared.handles[uid])], 1)
    one, two = (sorted((row["id"], row["r"]) for row in world.released(uid)) for uid in ("one", "two"))
    assert one == two
    assert len(one) == 5


class FailsOnce(BoundSink):
    """A file sink whose target fails once, after the frame was consumed."""

    def __init__(self, world: World) -> None:
        self.sink = bind_sinks(world, "own")["own"]
        self.ids: list[str] = []

    def stage(self, frame: DataFrame, request: StageRequest) -> Handle:
        handle = self.sink.stage(frame, request)
        self.ids.append(request.id)
        if len(self.ids) == 1:
            raise TransientError(message="the server restarts")
        return handle

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        return self.sink.release(handles, checkpoint)

    def last_released(self) -> int:
        return self.sink.last_released()

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        return self.sink.collect_garbage(live_handles, live_attempts)


def without_pauses(sink: str, is_over: Callable[[], bool]) -> SinkWait:
    """Return waits that do not pause."""
    now = itertools.count()
    return SinkWait(
        300.0,
        is_over=is_over,
        check_fenced=lambda: None,
        report=lambda seconds, error: None,
        clock=lambda: float(next(now)),
        sleep=lambda seconds: None,
    )


@pytest.mark.parametrize(
    ("stateful", "partition", "computed"), [(False, False, 20), (True, True, 10), (False, True, 10)]
)
def test_r18_a_sink_that_fails_for_a_time_gets_the_batch_again(
    spark: SparkSession, world: World, stateful: bool, partition: bool, computed: int
) -> None:
    """Rows of the first try are discarded, and rows of the second try are released once."""
    sink, done = FailsOnce(world), spark.sparkContext.accumulator(0)
    target = PartitionTarget("p", "p/edge/data") if partition else None
    storage, attempt = open_storage(world.base), AttemptId(1, 0, "x")
    out = Outputs(spark, storage, attempt, {"own": sink}, target, "scratch", wait=without_pauses, is_stateful=stateful)

    def count(number: int) -> int:
        done.add(1)
        return number

    prepared = out.stage(spark.range(10).repartition(2).withColumn("n", F.udf(count, "long")("id")), 0)
    assert [prepared.handles["own"]["id"]] == sink.ids[1:]
    assert sink.ids[0] != sink.ids[1]
    assert done.value == computed
    assert sink.release([dict(prepared.handles["own"])], 1)["rows"] == 10
    assert world.released_ids("own") == [*range(10)]


def test_r18_a_stateful_query_does_not_compute_a_batch_twice(spark: SparkSession, world: World) -> None:
    """Its state would come from the first computation, and its rows from the second."""
    sink = FailsOnce(world)
    out = Outputs(
        spark,
        open_storage(world.base),
        AttemptId(1, 0, "x"),
        {"own": sink},
        None,
        "scratch",
        wait=without_pauses,
        is_stateful=True,
    )
    with pytest.raises(TransientError):
        out.stage(spark.range(10), 0)
    assert len(sink.ids) == 1


def test_r5_two_calls_for_one_batch_write_separate_files(spark: SparkSession, world: World) -> None:
    out = outputs(spark, world, "s", partition=True)
    first = out.stage(spark.range(3), 7)
    second = out.stage(spark.range(4), 7)
    assert first.handles["s"]["id"] != second.handles["s"]["id"]
    assert not {file.path for file in first.files} & {file.path for file in second.files}
    rows = sum(len(read_rows(world.base / "p" / file.path)) for file in first.files)
    assert rows == 3


def test_an_empty_batch_leaves_no_file(spark: SparkSession, world: World) -> None:
    prepared = outputs(spark, world, "s", partition=True).stage(spark.range(3).where("id > 9"), 0)
    assert prepared.files == ()
    assert open_storage(world.base).files("p") == []
    assert prepared.handles["s"]["rows"] == 0


def test_partition_files_are_named_relative_to_the_partition(spark: SparkSession, world: World) -> None:
    prepared = outputs(spark, world, partition=True).stage(spark.range(3).coalesce(1), 2)
    (file,) = prepared.files
    assert file.path.startswith("edge/data/0001-x-2-")
    assert (world.base / "p" / file.path).stat().st_size == file.size


def test_r1_an_attempt_has_one_prepared_record_its_last(storage: Storage, tmp_path: Path) -> None:
    store = PreparedStore(storage, "prepared")
    first, second = AttemptId(1, 0, "x"), AttemptId(2, 0, "y")
    earlier = Prepared(first, 3, (PartitionFile("edge/data/x/part-0", 9),), {"s": {"id": "0001-x-3-n", "rows": 2}})
    assert store.read(first) is None
    store.write(earlier)
    two = Prepared(first, 4, (PartitionFile("edge/data/y/part-0", 9),), {}, rows=7)
    other = Prepared(second, 4, (), {})
    store.write(two)
    store.write(other)
    assert (store.read(first), store.read(second)) == (two, other)


# ---- several jobs, one folder


def run_into(world: World, mode: Mode, job_id: str) -> tuple[str, str | None]:
    """Run a job that reads all of history; return its final status and the cause."""
    job = Job("daily")

    @job.source(bounded=True)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    job.sink("out", history, FileSink(world.path("out"), mode=mode))
    try:
        run = world.run(job, job_id=job_id)
    except InvalidInputError as error:
        return "REFUSED", str(error)
    return run.status, run.cause


def test_a_run_under_another_id_is_refused_unless_it_appends(world: World) -> None:
    """Each Dag run is a separate job, and all of them write to one folder."""
    expected = sorted(world.put_ids("history", 2, 3))
    assert run_into(world, "errorifexists", "one")[0] == "FINISHED"
    before = world.everything_under_root()
    status, cause = run_into(world, "errorifexists", "two")
    assert status == "REFUSED"
    assert world.everything_under_root() == before
    assert "job 'one' (sink out) released there" in str(cause)
    assert world.released_ids() == expected
    assert run_into(world, "append", "three")[0] == "FINISHED"
    assert world.released_ids() == sorted(expected * 2)


def test_an_overwriting_run_leaves_only_its_own_rows(spark: SparkSession, world: World) -> None:
    world.put_ids("history", 2, 3)
    assert run_into(world, "overwrite", "one")[0] == "FINISHED"
    world.put_ids("history", 1, 4, start=100)
    assert run_into(world, "overwrite", "one~g1")[0] == "FINISHED"
    expected = [*range(6), *range(100, 104)]
    assert world.released_ids() == expected
    assert sorted(row["id"] for row in spark.read.parquet(world.path("out")).collect()) == expected
    assert {manifest.job_id for manifest in read_manifests(world.path("out"))} == {"one~g1"}
