"""Ends, boundaries and deletion. Each test fails if the step that it covers is missing."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.jobmaster.retention import retention
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.spark.task.streaming.running_query import RunningQuery
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch, EndOfData, Open
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.faults import HookedStorage
from tests.spark.harness import World
from tests.spark.jobs import mixed

pytestmark = pytest.mark.slow


class DiesAfter(WrappedStorage):
    """A storage that refuses writes after log entry ``count`` that contains ``text``, of ``vertex`` if given."""

    def __init__(self, inner: Storage, text: bytes, count: int = 1, vertex: str = "") -> None:
        super().__init__(inner)
        self.text, self.left, self.vertex = text, count, vertex

    def create(self, path: str, data: bytes) -> None:
        super().create(path, data)
        if "/log/" in path and f"{self.vertex}/" in path and self.text in data:
            self.left -= 1

    def _mutate(self, verb: str, path: str, act: object) -> None:
        if self.left <= 0:
            raise StorageTransientError(verb=verb, uri=path, reason="gone")
        super()._mutate(verb, path, act)  # type: ignore[arg-type]


def test_r2_a_batch_planned_with_history_runs_before_history_is_dropped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """History has ended, a late file of it is in the planned batch, and the query is stopped in that batch."""
    expected = world.put_ids("history", 2, 2) | world.put_ids("live", 6, 1, 1000)
    in_batch, interrupted = threading.Event(), threading.Event()
    stage, stop_between = RunningQuery.foreach_batch, RunningQuery.stop_after_batch

    def foreach_batch(self: RunningQuery, frame: object, batch_id: int) -> None:
        inputs, offsets = self._batches.inputs, self._batches.folder.offsets(batch_id)
        planned = [Path(path).stem for path in inputs.planned(offsets).get("history", ())]
        if planned == ["000002"]:
            world.put("history", "late", [{"id": 500, "k": 0}])
        if planned == ["late"] and not interrupted.is_set():
            self._batches.finish_committed()
            in_batch.set()
            interrupted.wait(60)
            raise RuntimeError("interrupted")
        stage(self, frame, batch_id)  # type: ignore[arg-type]

    def stop_after_batch(self: RunningQuery) -> None:
        if interrupted.is_set() or not in_batch.wait(60):
            stop_between(self)
            return
        self._end.expect()
        self._end.interrupt()
        interrupted.set()
        assert self._query is not None
        self._query.stop()

    monkeypatch.setattr(RunningQuery, "foreach_batch", foreach_batch)
    monkeypatch.setattr(RunningQuery, "stop_after_batch", stop_after_batch)
    run = world.run(mixed(world), world.drain_at(len(expected) + 1))
    assert interrupted.is_set()
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected | {500})


def ticking(world: World) -> Job:
    """Return a job with a bounded source whose end is in no file list. A second call finds a later end."""
    job = Job("ticking")

    @job.source(bounded=True, ends="available_now")
    def ticks(read: DataStreamReader) -> DataFrame:
        return read.format("rate-micro-batch").option("rowsPerBatch", 5).load().selectExpr("value AS id")

    job.sink("out", ticks, FileSink(world.path("out")))
    return job


def test_r11_the_end_of_data_in_the_log_ends_the_vertex_without_the_journal(world: World) -> None:
    with suppress(TransientError):
        world.run(ticking(world), storage=DiesAfter(world.storage, b'"EndOfData"'), mode="streaming")
    (ended,) = [number for number, record in world.records("ticks") if isinstance(record, EndOfData)]
    assert not world.state().end_of_data
    run = world.run(ticking(world), mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    batches = [number for number, record in world.records("ticks") if isinstance(record, Batch)]
    assert batches
    assert max(batches) < ended
    assert world.released_ids() == [*range(5 * len(batches))]


def test_r4_output_published_after_a_checkpoint_is_void_after_a_restore(world: World) -> None:
    expected = world.put_ids("history", 6, 2) | world.put_ids("live", 2, 2, 1000)
    assert (
        world.run(mixed(world, chain=False), world.ask("stop", lambda: world.released_count() >= 2)).status == "STOPPED"
    )
    expected |= world.put_ids("live", 6, 2, 2000)
    dies = DiesAfter(world.storage, b'"type": "Batch"', 2, "doubled")  # of three live batches at least
    with suppress(TransientError):
        world.run(mixed(world, chain=False), storage=dies, checkpoint_interval=3600)
    number = world.state().last_completed
    snapshot = world.state().checkpoints[number].subtasks[SubtaskId("doubled/0")]
    behind = [at for at, record in world.records("doubled") if isinstance(record, Batch) and at > snapshot.position]
    assert behind
    path = f"{world.root}/{world.job_id}/checkpoints/chk-{number}"
    run = world.run(mixed(world, chain=False), world.drain_at(len(expected)), restore=path)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    opens = [record for _, record in world.records("doubled") if isinstance(record, Open)]
    assert opens[-1].continues_at == snapshot.position + 1
    assert not {at for at, _ in world.records("doubled")} & set(behind)


def test_r7_completed_checkpoints_truncate_logs_partition_data_and_journal(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "TRUNCATE_AT", 3)
    monkeypatch.setattr(retention, "WORTH_A_SNAPSHOT", 4)
    expected = world.put_ids("history", 8, 2) | world.put_ids("live", 1, 2, 1000)
    all_released: list[int] = []

    def well_beyond() -> bool:
        """Return True when all entries have been truncated more than once since all rows were released."""
        completed = world.state().last_completed
        if not all_released and world.released_count() == len(expected):
            all_released.append(completed)
        return bool(all_released) and completed >= max(20, all_released[0] + 8)

    stopped = world.run(mixed(world, chain=False), world.ask("stop", well_beyond), retained_checkpoints=1)
    assert stopped.status == "STOPPED"

    def heads(folder: str) -> list[str]:
        return [name for name in world.storage.list(folder) if name.startswith("head-")]

    assert heads(subtask_log_path(world.job_id, "history", 0))
    assert heads(subtask_log_path(world.job_id, "doubled", 0))
    assert heads(f"{world.job_id}/journal")
    named = {file.path for _, record in world.records("history") if isinstance(record, Batch) for file in record.files}
    data = list(world.root.rglob("partition/**/data/*/*.parquet"))
    assert len(data) < 8
    assert len(named) < 8
    expected |= world.put_ids("live", 1, 2, 2000)
    run = world.run(mixed(world, chain=False), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_c11_partition_files_are_durable_before_the_record_that_names_them(world: World) -> None:
    """A machine that loses power keeps only the data that was fsynced."""
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 1, 2, 1000)
    verbs: list[tuple[str, str]] = []
    storage = HookedStorage(world.storage, lambda verb, path: verbs.append((verb, path)))
    assert world.run(mixed(world, chain=False), world.drain_at(len(expected)), storage).status == "FINISHED"
    steps = [
        "sync" if verb == "sync" else "prepared"
        for verb, path in verbs
        if (verb == "sync" and "/history/0/partition/" in path)
        or (verb == "replace" and "/history/0/prepared/" in path)
    ]
    assert steps.count("prepared") >= 3
    assert steps == ["sync", "prepared"] * steps.count("prepared")
    assert not [path for verb, path in verbs if verb == "sync" and "/scratch/" in path]
