"""Decisions of earlier drivers.

The next driver keeps them, and decides on the state that it has claimed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.errors import InvalidInputError, TransientError
from airflow_provider_ckpt.job.errors import BadOptionError, DefinitionChangedError
from airflow_provider_ckpt.jobmaster.errors import RestoreRefusedError
from airflow_provider_ckpt.jobmaster.post_run import tidy_up
from airflow_provider_ckpt.jobmaster.recovery import takeover
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.errors import CorruptJournalError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.job_request import StopRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.spark.main import run_job
from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest
from airflow_provider_ckpt.spark.query.errors import SchemaChangedError, UnreadableFileError
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.subtasklog.records import Batch, EndOfPartition, Open
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.faults import HookedStorage, at_prepared, before_claim
from tests.spark.harness import World
from tests.spark.jobs import IDS, bounded, mixed, windows
from tests.support.refusing_storage import RefusingStorage
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


class DiesAt(WrappedStorage):
    """A storage that fails from the first entry on that contains ``text`` while ``when()`` is true."""

    def __init__(self, inner: Any, text: str, when: Callable[[], bool] = lambda: True, path: str = "") -> None:
        super().__init__(inner)
        self.text, self.when, self.path = text.encode(), when, path
        self.dead = False

    def create(self, path: str, data: bytes) -> None:
        self.dead = self.dead or (self.text in data and self.path in path and self.when())
        if self.dead:
            raise StorageTransientError(verb="create", uri=self.full_uri(path), reason="gone")
        super().create(path, data)

    def child(self, path: str) -> DiesAt:
        return DiesAt(self.inner.child(path), self.text.decode(), self.when, self.path)


def run_into(world: World, job: Job, storage: DiesAt, **options: Any) -> None:
    with suppress(TransientError):
        assert world.run(job, storage=storage, **options).status == "RESTARTING"
    assert storage.dead


# ---- event time of finished vertices


def windows_of(ids: set[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for number in ids:
        counts[number - number % 10] = counts.get(number - number % 10, 0) + 1
    return counts


def die_after_the_end_of_history(world: World, job: Job, **options: Any) -> None:
    """Let a driver die when history has ended and the consumer has published nothing.

    The consumer is paused in its first batch until history has ended. History waits until the consumer is paused.
    """
    held: list[str] = []

    def hold() -> None:
        held.append("counts")
        wait_until(lambda: "history/0" in world.state().end_of_data, "the end of history")

    consumer = at_prepared("counts", 1, hold)
    producer = at_prepared("history", 2, lambda: wait_until(lambda: held, "a batch of the consumer"))

    def hook(verb: str, path: str) -> None:
        consumer(verb, path)
        producer(verb, path)

    run_into(world, job, DiesAt(HookedStorage(world.storage, hook), '"type": "Batch"', path="/counts/"), **options)
    assert not [record for _, record in world.records("counts") if isinstance(record, Batch)]


def test_a_finished_vertex_keeps_its_event_time_for_its_consumer(world: World) -> None:
    """Otherwise the live feed alone drives event time after a retry, and unread history is late."""
    expected = world.put_ids("history", 8, 10) | world.put_ids("live", 2, 5, 100_000)
    die_after_the_end_of_history(world, windows(world, chain=False))
    all_of_live = lambda: world.state().last_completed > 0 and world.read_up_to("counts", "live") >= 1  # noqa: E731
    run = world.run(windows(world, chain=False), world.ask("drain", all_of_live))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert {row["id"]: row["n"] for row in world.released()} == windows_of(expected)


def test_a_retry_plans_with_the_event_time_of_a_finished_vertex(world: World) -> None:
    """Append mode needs a watermark. Without the finished vertex's watermark the retry would be refused forever."""
    expected = world.put_ids("history", 4, 10)
    die_after_the_end_of_history(world, windows(world, chain=False, live_too=False), mode="streaming")
    run = world.run(windows(world, chain=False, live_too=False))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert {row["id"]: row["n"] for row in world.released()} == windows_of(expected)


# ---- the mode


def stopped_in_streaming_mode(world: World) -> set[int]:
    expected = world.put_ids("history", 4, 2)
    first = world.stop_in_batch(bounded(world), "doubled", mode="streaming")
    assert (first.status, world.released_count()) == ("STOPPED", 2)
    return expected


def test_a_job_resumes_in_its_first_mode(world: World) -> None:
    expected = stopped_in_streaming_mode(world)
    run = world.run(bounded(world))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_another_mode_is_refused_before_anything_is_written(world: World) -> None:
    stopped_in_streaming_mode(world)
    written = world.everything_under_root()
    with pytest.raises(DefinitionChangedError, match="the job has another mode"):
        world.run(bounded(world), mode="batch")
    assert world.everything_under_root() == written


# ---- decisions after the claim


def test_a_restore_is_decided_on_the_claimed_state(world: World) -> None:
    expected = world.put_ids("history", 4, 2) | world.put_ids("live", 2, 2, 1000)
    world.run(mixed(world), world.ask("stop", lambda: world.released_count() >= 2))
    last = world.state().last_completed

    def the_driver_before_goes_on() -> None:
        more = world.ask("stop", lambda: world.released_count() == len(expected))
        assert world.run(mixed(world), more).status == "STOPPED"

    with pytest.raises(RestoreRefusedError, match="cannot take back"):
        world.run(mixed(world), storage=before_claim(world.storage, the_driver_before_goes_on), restore=f"chk-{last}")
    run = world.run(mixed(world), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_a_job_that_failed_before_the_claim_is_not_resumed(world: World) -> None:
    world.put_ids("history", 2, 2)
    world.put_ids("live", 1, 2, 1000)
    world.run(mixed(world), world.ask("stop", lambda: world.released_count() > 0))

    def it_fails_for_good() -> None:
        journal = Journal(world.storage, world.job_id)
        journal.claim("other", Worker(), time.time())
        journal.write(ev.StatusChanged(JobStatus.FAILED, time.time(), "for good"))

    with pytest.raises(InvalidInputError, match=r"failed terminally \(.*for good"):
        world.run(mixed(world), storage=before_claim(world.storage, it_fails_for_good))
    assert (world.state().status, world.state().epoch) == ("FAILED", 2)


def test_a_job_that_finished_before_the_claim_does_not_run_again(world: World) -> None:
    expected = world.put_ids("history", 2, 2) | world.put_ids("live", 1, 2, 1000)
    world.run(mixed(world), world.ask("stop", lambda: world.released_count() > 0))

    def it_finishes() -> None:
        assert world.run(mixed(world), world.drain_at(len(expected))).status == "FINISHED"

    assert world.run(mixed(world), storage=before_claim(world.storage, it_finishes)).status == "FINISHED"
    assert (world.state().status, world.state().epoch) == ("FINISHED", 2)
    assert world.released_ids() == sorted(expected)


def test_a_take_over_ends_the_driver_of_the_previous_epoch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that was replaced before the claim is not ended."""
    ended: list[object] = []

    def end_worker(worker: Worker, root: str, job_id: str, grace: float) -> str:
        ended.append(worker.pid)
        return "gone"

    monkeypatch.setattr(takeover, "end_worker", end_worker)
    journal = Journal(world.storage, world.job_id)
    journal.claim("first", Worker(pid=1), 1.0)
    late = Journal(world.storage, world.job_id)
    late.replay()
    Journal(world.storage, world.job_id).claim("second", Worker(pid=2), 2.0)
    assert takeover.claim(late, "third", Worker(pid=3)).epoch == 3
    assert ended == [2]


# ---- ends that are only in the log


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_r11_a_subtask_with_a_closed_log_is_finished(world: World, mode: str) -> None:
    expected = world.put_ids("history", 4, 2)
    run_into(world, bounded(world, chain=False), DiesAt(world.storage, '"type": "SubtaskFinished"'), mode=mode)
    assert isinstance(world.records("history")[-1][1], EndOfPartition)
    assert "history/0" not in world.state().finished
    run = world.run(bounded(world, chain=False), mode=mode)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.state().finished == {"history/0", "doubled/0"}
    assert world.released_ids() == sorted(expected)


# ---- a job that has completed nothing


def with_column(world: World, column: str, folder: str = "history", *, feed: str = "live", fails: bool = False) -> Job:
    job = Job("corrected")

    @job.source(bounded=True, max_files_per_trigger=1, allow_empty=True)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path(folder))

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path(feed))

    @job.transform(inputs=[history, live])
    def made(rows: DataFrame) -> DataFrame:
        if fails:
            return rows.withColumn(column, F.expr("assert_true(id < 0, 'a mistake')").cast("long"))
        return rows.withColumn(column, F.col("id"))

    job.sink("out", made, FileSink(world.path("out")))
    return job


def test_a_job_without_a_checkpoint_can_be_corrected_and_restarts(world: World) -> None:
    """The folder was wrong and the function failed. The corrected output has another column."""
    world.put_ids("wrong", 3, 2, 500)
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, 1000)
    failed = world.run(with_column(world, "a", "wrong", fails=True), checkpoint_interval=600)
    assert (failed.status, world.state().last_completed) == ("RESTARTING", 0)
    assert world.state().frozen["history"].count == 3
    run = world.run(with_column(world, "b"), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert [line["kind"] for line in run.lines if line["kind"] == "anew"] == ["anew"]
    assert world.released_ids() == sorted(expected)
    assert {row["b"] == row["id"] for row in world.released()} == {True}


def complete_empty_checkpoints(world: World) -> None:
    """Let several checkpoints complete and be released while there is nothing to read; then stop the driver."""
    world.path("wrong")
    world.path("live")
    stopped = world.run(with_column(world, "a", "live2"), world.ask("stop", lambda: world.state().last_released >= 2))
    assert (stopped.status, world.released_count()) == ("STOPPED", 0)


@pytest.mark.parametrize("dies", ["never", '"type": "PlanRecorded"', '"type": "Open"', "spark-folder"])
def test_a_job_with_only_empty_checkpoints_can_be_corrected(world: World, dies: str) -> None:
    """Checkpoints of nothing complete while a first batch runs long, or while a folder is still empty."""
    complete_empty_checkpoints(world)
    last = world.state().last_completed
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, 1000)
    if dies != "never":
        run_into(world, with_column(world, "b"), DiesAt(world.storage, dies))
    run = world.run(with_column(world, "b"), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert world.state().last_completed > last > 1
    assert world.state().frozen["history"].count == 3


def publish_without_a_checkpoint(world: World) -> None:
    """Publish and stage batches of the wrong folder without a completed checkpoint."""
    world.put_ids("wrong", 3, 2, 500)
    storage = DiesAt(world.storage, '"type": "CheckpointTriggered"')  # the first one, at the end of the source
    run_into(world, with_column(world, "a", "wrong"), storage, checkpoint_interval=600)
    assert any(isinstance(record, Batch) for _, record in world.records("made"))


@pytest.mark.parametrize("dies", ["never", '"type": "PlanRecorded"', '"type": "Open"', "spark-folder"])
def test_r4_output_from_before_a_restart_from_scratch_is_void(world: World, dies: str) -> None:
    """This also holds if the driver that restarts from scratch dies during its start."""
    publish_without_a_checkpoint(world)
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, 1000)
    if dies != "never":
        run_into(world, with_column(world, "b"), DiesAt(world.storage, dies))
    run = world.run(with_column(world, "b"), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_a_changed_job_with_released_rows_is_refused_by_name(world: World) -> None:
    world.put_ids("history", 2, 2)
    # not the first checkpoint, because it may be empty, and a job with only empty checkpoints can still change
    world.run(with_column(world, "a"), world.ask("stop", lambda: world.released_count() > 0))
    written = world.everything_under_root()
    with pytest.raises(SchemaChangedError, match="made"):
        world.run(with_column(world, "b"))
    with pytest.raises(DefinitionChangedError, match="source 'live' has another paths"):
        world.run(with_column(world, "a", feed="elsewhere"))  # history may be over: its function is not called
    assert world.everything_under_root() == written


class RefusesOpens(WrappedStorage):
    def create(self, path: str, data: bytes) -> None:
        if b'"type": "Open"' in data:
            raise StorageTransientError(verb="create", uri=path, reason="gone")
        super().create(path, data)


def test_a_driver_that_fails_during_its_start_records_the_cause(world: World) -> None:
    world.put_ids("history", 1, 2)
    with pytest.raises(TransientError):
        world.run(bounded(world), storage=RefusesOpens(world.storage), mode="streaming")
    assert world.state().status == "RESTARTING"
    assert "gone" in (world.state().cause or "")


def test_a_driver_deletes_requests_of_earlier_epochs(world: World) -> None:
    storage = world.storage
    storage.create("job/requests/early.json", b"?")  # an unreadable request is answered, not deleted
    write_request(storage, "job", StopRequest(epoch=1))
    left = world.root / "job" / "frozen" / ".tmp-0123456789abcdef"
    left.parent.mkdir()
    left.write_bytes(b"")
    tidy_up(storage, "job", 2)
    assert left.exists()  # another process may own it
    assert storage.list("job/requests") == ["early.json"]


def test_undeletable_leftovers_do_not_stop_a_job(world: World) -> None:
    """Examples are another user's file or an object under legal hold.

    Nothing needs such leftovers, but the job could never run again.
    """
    world.put_ids("history", 2, 2)
    world.put_ids("live", 1, 2, 1000)
    run = world.run(mixed(world, chain=False), world.ask("stop", lambda: world.released_count() >= 6))
    assert run.status == "STOPPED", run.cause
    vertex = world.root / "job" / "vertices" / "history" / "0"
    attempt = min(str(record.attempt) for _, record in world.records("history") if isinstance(record, Open))
    (data,) = vertex.glob("partition/*/data")
    left = [data / f"{attempt}-77-0123456789abcdef", vertex / "scratch" / f"{attempt}-78-0123456789abcdef"]
    for folder in left:
        folder.mkdir(parents=True)
        (folder / "part-0.parquet").write_bytes(b"x")
    stays = {*(folder.name for folder in left), attempt}
    refusing = RefusingStorage(world.storage, lambda path: Path(path).name in stays)
    for number, storage in enumerate([refusing, world.storage]):
        world.put_ids("live", 1, 2, 2000 + 10 * number)
        wanted = 8 + 2 * number
        stop = world.ask("stop", lambda wanted=wanted: world.released_count() >= wanted)  # type: ignore[misc]
        run = world.run(mixed(world, chain=False), stop, storage=storage)
        assert run.status == "STOPPED", run.cause
        assert [folder.exists() for folder in left] == [storage is refusing] * 2
    assert world.released_ids() == [0, 1, 2, 3, 1000, 1001, 2000, 2001, 2010, 2011]


def test_a_finished_job_leaves_no_requests_and_no_temporary_files(world: World) -> None:
    world.put_ids("history", 2, 2)
    world.put_ids("live", 1, 2, 1000)
    drain = world.drain_at(6)

    def on_line(line: dict[str, Any]) -> None:
        if line["kind"] == "running":  # a writer was killed at this moment
            (world.root / "job" / "vertices" / "doubled" / "0" / "log" / ".tmp-0123456789abcdef").write_bytes(b"")
        drain(line)

    assert world.run(mixed(world), on_line).status == "FINISHED"
    assert not [path for path in world.everything_under_root() if "requests/" in path or ".tmp-" in path]


@pytest.mark.parametrize("option", ["stop_at", "drain_at"])
def test_a_first_run_with_a_deadline_in_the_past_is_refused(world: World, option: str) -> None:
    world.put_ids("history", 2, 2)
    over: dict[str, Any] = {option: "2020-01-01T00:00:00Z"}
    with pytest.raises(BadOptionError, match=option):
        world.run(mixed(world), **over)
    assert world.everything_under_root() == []


def test_a_retry_after_drain_at_drains(world: World) -> None:
    expected = world.put_ids("history", 2, 2) | world.put_ids("live", 1, 2, 1000)
    run = world.run(mixed(world), world.ask("stop", lambda: world.released_count() >= len(expected)))
    assert run.status == "STOPPED"
    run = world.run(mixed(world), drain_at="2020-01-01T00:00:00Z")
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))
    assert any("drain_at (2020-01-01T00:00:00+00:00) is over" in line["message"] for line in run.of("warning"))


def test_a_bounded_job_with_a_past_drain_at_is_read_to_its_end(world: World) -> None:
    expected = world.put_ids("history", 2, 2)
    run = world.run(bounded(world), drain_at="2020-01-01T00:00:00Z", mode="streaming")
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))


def test_a_job_with_a_lost_journal_does_not_start_as_new(world: World) -> None:
    world.put_ids("history", 2, 2)
    world.run(mixed(world), world.ask("stop", lambda: world.released_count() > 0))
    shutil.rmtree(world.root / "job" / "journal")
    written = world.everything_under_root()
    with pytest.raises(CorruptJournalError, match="it is empty"):
        world.run(mixed(world))
    assert world.everything_under_root() == written


def test_nullability_that_changes_with_a_left_out_input_is_ignored(world: World) -> None:
    """The job unites files, whose columns may be null, with a source whose columns may not."""
    expected = world.put_ids("history", 2, 2)
    over = lambda: any(world.state().dropped.values())  # noqa: E731
    job = with_ticks(world)
    stopped = world.run(job, world.ask("stop", over))
    assert stopped.status == "STOPPED"
    run = world.run(with_ticks(world), world.ask("drain", lambda: True))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert sorted(row["id"] for row in world.released() if row["id"] is not None and row["k"] >= 0) == sorted(expected)


def with_ticks(world: World) -> Job:
    job = Job("ticking")

    @job.source(bounded=True, max_files_per_trigger=1)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.source
    def ticks(read: DataStreamReader) -> DataFrame:
        return read.format("rate-micro-batch").option("rowsPerBatch", 1).load().selectExpr("value AS id", "-1L AS k")

    @job.transform(inputs=[history, ticks])
    def both(rows: DataFrame) -> DataFrame:
        return rows

    job.sink("out", both, FileSink(world.path("out")))
    return job


def test_a_file_name_with_glob_characters_is_not_frozen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file appears between the planning and the freezing of the source."""
    world.put_ids("history", 1, 2)
    world.put_ids("live", 1, 2, 1000)
    world.put("history", "a[1]", [{"id": 7, "k": 7}])
    monkeypatch.setattr("airflow_provider_ckpt.spark.plan.builder.refuse_unreadable_names", lambda *_: None)
    with pytest.raises(UnreadableFileError, match=r"'history' .* takes for a pattern"):
        world.run(mixed(world))
    assert "history" not in world.state().frozen
    monkeypatch.undo()
    (world.base / "history" / "a[1].parquet").rename(world.base / "history" / "a1.parquet")
    run = world.run(mixed(world), world.drain_at(5))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [0, 1, 7, 1000, 1001]


@pytest.mark.parametrize(
    "other",
    [{"partition_by": ["k"]}, {"format": "json"}, {"path": "elsewhere"}],
    ids=["partitions", "format", "path"],
)
def test_another_layout_of_the_output_is_refused(world: World, other: dict[str, Any]) -> None:
    """Readers that list the folder would miss rows or fail."""
    world.put_ids("history", 2, 2)
    world.run(mixed(world), world.ask("stop", lambda: world.released_count() > 0))
    written = world.everything_under_root()
    changed = {**other, "path": world.path(other.get("path", "out"))}
    with pytest.raises(DefinitionChangedError, match="sink 'out' has another"):
        world.run(mixed(world, sink=lambda path: FileSink(**changed)))
    assert world.everything_under_root() == written
    compressed = mixed(world, sink=lambda path: FileSink(path, options={"compression": "gzip"}))
    assert world.run(compressed, world.drain_at(4)).status == "FINISHED"
    assert world.released_ids() == [*range(4)]


# ---- a job that is FINISHED


def elsewhere(world: World, out: str) -> Job:
    job = Job("bounded")

    @job.source(bounded=True, max_files_per_trigger=1)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.transform(inputs=[history])
    def doubled(rows: DataFrame) -> DataFrame:
        return rows.withColumn("twice", F.col("id") * 2)

    job.sink("out", doubled, FileSink(world.path(out)))
    return job


def test_a_finished_job_with_another_definition_is_refused(world: World) -> None:
    """Nothing would run, and the run would count as a success.

    Example: a second day under the id of the first.
    """
    world.put_ids("history", 2, 2)
    assert world.run(bounded(world), params={"day": "1"}).status == "FINISHED"
    assert world.run(bounded(world), params={"day": "1"}).status == "FINISHED"
    with pytest.raises(DefinitionChangedError, match=r"another parameters.*'1'.*'2'.*FINISHED"):
        world.run(bounded(world), params={"day": "2"})
    with pytest.raises(DefinitionChangedError, match="another path"):
        world.run(elsewhere(world, "other"), params={"day": "1"})
    more = bounded(world)
    more.sink("extra", "doubled", FileSink(world.path("extra")))
    with pytest.raises(DefinitionChangedError, match=r"another operators.*extra"):
        world.run(more, params={"day": "1"})


def test_a_source_that_ended_without_a_file_is_reported_at_every_start(world: World) -> None:
    """The source's folder may have been wrong, and its function is not called again."""
    world.path("history")
    world.put_ids("live", 1, 2)
    over = lambda: "history" in world.state().finished_operators() and world.released_count() > 0  # noqa: E731
    world.run(mixed(world, allow_empty=True), world.ask("stop", over))
    run = world.run(mixed(world, allow_empty=True), world.drain_at(2))
    assert [line["message"] for line in run.of("warning") if "has read nothing" in line["message"]]


def test_an_answered_request_leaves_no_file(world: World) -> None:
    world.put_ids("history", 1, 2)
    world.put_ids("live", 1, 2, 1000)
    assert world.run(mixed(world), world.ask("stop", lambda: world.released_count() > 0)).status == "STOPPED"
    assert world.storage.list("job/requests") == []


def test_a_root_in_the_folder_of_a_sink_is_refused(world: World) -> None:
    job_file = world.base / "inside.py"
    job_file.write_text(
        "from pathlib import Path\n"
        "from tests.spark.harness import World\n"
        "from tests.spark.jobs import bounded\n"
        f"job = bounded(World(Path({str(world.base)!r})))\n"
    )
    lines: list[dict[str, Any]] = []
    options = world.options(job=f"{job_file}:job", root=str(world.base / "out" / "ckpt"))
    assert run_job(RunRequest(options, Location(options.root), lambda line: lines.append(line.to_json()))) == 2
    assert "lies in the folder of sink 'out'" in lines[-1]["message"]
    assert not (world.base / "out" / "ckpt").exists()
