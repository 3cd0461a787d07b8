"""Deletion of a job that has ended: accepted jobs, deleted and kept files, and refusals. Needs no
Spark."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.client.errors import NoSuchJobError
from airflow_provider_ckpt.client.job_client import JobClient, list_jobs
from airflow_provider_ckpt.errors import DeletionRefusal, RequestRefusedError
from airflow_provider_ckpt.jobmaster.errors import JobNotDeletedError, StagedOutputLeftError
from airflow_provider_ckpt.jobmaster.retention.job_deletion import DeletionTerms, JobDeletion
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.errors import CorruptJournalError, FencedError, JobDeletedError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition, SinkDefinition
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.errors import NoRootError
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from tests.client.ended_job import ELSEWHERE, GONE, GRAPH, HERE, EndedJob
from tests.client.release_log_sink import ReleaseLogSink
from tests.support.books import books
from tests.support.definitions import STREAMING

Make = Callable[..., EndedJob]
FINISHED, STOPPED, FAILED = JobStatus.FINISHED, JobStatus.STOPPED, JobStatus.FAILED
RUNNING, RESTARTING = JobStatus.RUNNING, JobStatus.RESTARTING


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda *args, **options: EndedJob.run(tmp_path, *args, **options)


def test_deleting_a_finished_job_keeps_its_released_output(make: Make) -> None:
    job = make()
    files, output = job.files(), job.output()
    deleted = job.client.delete()
    assert (deleted.was, deleted.files, deleted.bytes) == (FINISHED, len(files), sum(map(len, files.values())))
    assert (deleted.staged, deleted.left, deleted.already) == ({"lake": 1}, (), False)
    assert (job.parts(), job.staged(), job.output()) == (["journal"], [], output)
    state = job.client.state()
    assert (state.status, state.epoch, state.last_completed, state.last_released) == (JobStatus.DELETED, 2, 2, 2)
    assert state.deletion is not None
    assert (state.deletion.was, state.has_finished) == (FINISHED, True)


def test_the_journal_of_a_deleted_job_keeps_the_claims_and_one_entry(make: Make) -> None:
    job = make()
    job.client.delete()
    entries = job.storage.list("orders/journal")
    assert entries == ["00000000.json", "00000009.json", "00000012.json", "head-00000012.json"]
    tombstone = Journal(job.storage, "orders")
    state = tombstone.replay()
    assert tombstone.is_compact
    assert (state.plan, state.created, state.checkpoints, [*state.releases]) == (None, None, {}, [1, 2])
    assert sum(len(job.storage.read(f"orders/journal/{name}")) for name in entries) < 3000


def test_a_second_deletion_writes_nothing(make: Make) -> None:
    job = make()
    job.client.delete()
    before = job.storage.files("")
    deleted = job.client.delete()
    assert (deleted.already, deleted.was, deleted.files) == (True, FINISHED, 0)
    assert job.storage.files("") == before


def test_a_second_deletion_removes_files_of_a_paused_driver(make: Make) -> None:
    job = make()
    job.client.delete()
    job.storage.create("orders/vertices/v/0/spark/0001-a1/offsets/9", b"1234")
    deleted = job.client.delete()
    assert (deleted.already, deleted.was, deleted.files, deleted.bytes) == (False, FINISHED, 1, 4)
    assert job.parts() == ["journal"]
    assert job.client.delete().already


# ---- which jobs


@pytest.mark.parametrize("status", [STOPPED, FAILED])
def test_deleting_an_unfinished_job_needs_the_unfinished_flag(make: Make, status: JobStatus) -> None:
    job = make(status)
    before = job.storage.files("")
    with pytest.raises(JobNotDeletedError, match=rf"is {status} .* has not FINISHED.*--unfinished") as refused:
        job.client.delete()
    assert refused.value.reason is DeletionRefusal.NOT_OVER
    assert job.storage.files("") == before
    assert job.client.delete(unfinished=True).was is status
    assert (job.parts(), job.staged()) == (["journal"], [])
    assert not job.client.state().has_finished


@pytest.mark.parametrize(
    ("status", "worker", "words"),
    [
        (RESTARTING, GONE, "the next run is expected to resume it"),
        (RESTARTING, ELSEWHERE, "the next run is expected to resume it"),
        (RUNNING, GONE, "its driver has reported no end, and is gone"),
        (RUNNING, ELSEWHERE, "its driver has reported no end, and on worker-7 cannot be seen from here"),
    ],
)
def test_deleting_a_job_that_may_run_needs_the_abandoned_flag(
    make: Make, status: JobStatus, worker: Worker, words: str
) -> None:
    job = make(status, worker)
    before = job.storage.files("")
    with pytest.raises(JobNotDeletedError, match=f"is {status} .*{words}.*--abandoned"):
        job.client.delete(unfinished=True, discard_unreleased=True)
    assert job.storage.files("") == before
    assert job.client.delete(abandoned=True).was is status
    assert job.parts() == ["journal"]


@pytest.mark.parametrize("status", [RUNNING, RESTARTING, STOPPED, FAILED])
def test_no_flag_allows_deleting_a_job_with_a_live_driver(make: Make, status: JobStatus) -> None:
    """A driver that has reported the end of the job may still be alive."""
    job = make(status, HERE)
    before = job.storage.files("")
    with pytest.raises(JobNotDeletedError, match=f"is {status} .* its driver lives"):
        job.client.delete(unfinished=True, abandoned=True, discard_unreleased=True)
    assert job.storage.files("") == before


def test_deleting_a_job_that_was_only_claimed_needs_the_abandoned_flag(tmp_path: Path) -> None:
    job = EndedJob(tmp_path)
    job.claimed("t1", ELSEWHERE)
    with pytest.raises(JobNotDeletedError, match="is not RUNNING yet and"):
        job.client.delete(unfinished=True)
    assert job.client.delete(abandoned=True).was is None
    with pytest.raises(JobDeletedError, match="was not RUNNING yet before"):
        job.client.state().refuse_deleted()


@pytest.mark.parametrize("status", [STOPPED, FAILED, RESTARTING])
def test_r16_deleting_unreleased_output_needs_its_own_flag(make: Make, status: JobStatus) -> None:
    job = make(status, released=1)
    before = job.storage.files("")
    with pytest.raises(
        JobNotDeletedError, match=r"checkpoint 2, and released up to 1.*`ckpt release orders "
    ) as refused:
        job.client.delete(unfinished=True, abandoned=True)
    assert refused.value.reason is DeletionRefusal.UNRELEASED_OUTPUT
    assert job.storage.files("") == before
    output = job.output()
    job.client.delete(unfinished=True, abandoned=True, discard_unreleased=True)
    assert (job.parts(), job.staged(), job.output()) == (["journal"], [], output)


def test_r16_deleting_a_finished_job_with_unreleased_output_is_refused(make: Make) -> None:
    job = make(released=0)
    with pytest.raises(JobNotDeletedError, match="and released none"):
        job.client.delete()


def test_deleting_a_job_that_never_ran_is_refused(make: Make, tmp_path: Path) -> None:
    make()
    with pytest.raises(NoSuchJobError):
        JobClient(tmp_path / "root", "visits").delete()
    with pytest.raises(NoRootError):
        JobClient(tmp_path / "elsewhere", "orders").delete()
    assert not (tmp_path / "elsewhere").exists()


def test_deleting_a_job_whose_journal_is_lost_is_refused(make: Make) -> None:
    job = make()
    shutil.rmtree(job.root / "orders" / "journal")
    before = job.files()
    with pytest.raises(CorruptJournalError, match="the job's folder has files of its queries"):
        job.client.delete(unfinished=True)
    assert job.files() == before


def test_a_job_with_a_damaged_journal_is_not_deleted(make: Make) -> None:
    job = make()
    sorted((job.root / "orders" / "journal").glob("*.json"))[-1].write_text("{")
    before = job.files()
    with pytest.raises(CorruptJournalError):
        job.client.delete(unfinished=True)
    assert job.files() == before


# ---- staged output


def test_r5_staged_output_of_a_namesake_under_another_root_stays(make: Make) -> None:
    job = make()
    job.stage("0001-zz", 1)
    assert job.client.delete().staged == {"lake": 1}
    assert job.staged() == ["0001-zz-1-n1"]


def test_a_job_with_a_damaged_log_can_be_deleted(make: Make) -> None:
    """A user must be able to delete a damaged job."""
    job = make(FAILED)
    log = job.root / subtask_log_path("orders", "v", 0)
    (log / "00000003.json").write_text("{")
    assert job.client.delete(unfinished=True).staged == {"lake": 1}
    assert (job.parts(), job.staged()) == (["journal"], [])


def test_keep_staged_leaves_staged_output(make: Make) -> None:
    job = make()
    deleted = job.client.delete(keep_staged=True)
    assert (deleted.staged, deleted.left) == ({}, ("lake",))
    assert (job.parts(), job.staged()) == (["journal"], ["0001-a1-3-n3"])


def test_an_unknown_sink_is_cleaned_up_only_with_the_job_definition(make: Make, tmp_path: Path) -> None:
    job = make()
    plan = job.client.state().plan
    assert plan is not None
    sink = ReleaseLogSink(tmp_path / "release_log.json")
    sinks = {"lake": SinkDefinition("checkpoint", sink.definition())}
    journal = Journal(job.storage, "orders")
    journal.claim("t2", GONE, 6.0)
    journal.write(ev.PlanRecorded(plan.graph, {}, 6.0, JobDefinition("streaming", {}, {}, sinks)))
    journal.write(ev.StatusChanged(FINISHED, 7.0))
    shutil.copytree(tmp_path / "root", tmp_path / "again")
    assert job.client.delete().left == ("lake",)
    again = JobClient(tmp_path / "again", "orders").delete(job.definition(open_storage(job.lake.parent)))
    assert (again.left, again.staged) == ((), {"lake": 1})


def test_staged_output_of_unrecorded_sinks_is_left_and_reported(make: Make) -> None:
    job = make(None)
    journal = job.claimed("t2")
    journal.write(ev.PlanRecorded(GRAPH, {}, 6.0, STREAMING))
    journal.write(ev.StatusChanged(FINISHED, 7.0))
    assert job.client.delete().left == ("lake",)
    assert (job.parts(), len(job.staged())) == (["journal"], 1)


def test_an_unreachable_target_stops_the_deletion_until_the_next_call(make: Make) -> None:
    job = make()
    away, beside = job.folder / "away", books(job.lake)
    beside.rename(away)
    beside.symlink_to(beside)  # links in a circle: an error, and no absence
    with pytest.raises(StagedOutputLeftError, match=r"sink lake of job 'orders'.*--keep-staged") as refused:
        job.client.delete()
    assert refused.value.reason is DeletionRefusal.STAGED_OUTPUT_LEFT
    assert job.client.state().status is JobStatus.DELETING
    assert "vertices" in job.parts()
    beside.unlink()
    away.rename(beside)
    assert job.client.delete().staged == {"lake": 1}
    assert (job.parts(), job.staged()) == (["journal"], [])


def test_an_unreachable_target_does_not_keep_the_output_of_other_sinks(make: Make) -> None:
    job = make()
    lake: Any = job.sink.bind(SinkContext("orders", "lake"))

    def no_answer(*arguments: object) -> list[str]:
        raise ConnectionError("no answer")

    first: Any = SimpleNamespace(collect_garbage=no_answer)
    terms = DeletionTerms(False, False, False, False, False)
    deletion = JobDeletion(job.storage, "orders", terms, lambda state: {"first": first, "lake": lake})
    with pytest.raises(StagedOutputLeftError, match=r"sink first of job 'orders'.*no answer"):
        deletion.run()
    assert job.staged() == []
    assert "vertices" in job.parts()


def test_an_overtaken_deletion_leaves_the_other_sinks(make: Make) -> None:
    job = make()
    lake: Any = job.sink.bind(SinkContext("orders", "lake"))

    def overtaken(*arguments: object) -> list[str]:
        raise FencedError(job_id="orders", epoch=3, attempt="a", worker="w", own_epoch=2)

    first: Any = SimpleNamespace(collect_garbage=overtaken)
    terms = DeletionTerms(False, False, False, False, False)
    before = job.staged()
    with pytest.raises(StagedOutputLeftError, match="sink first of job 'orders'"):
        JobDeletion(job.storage, "orders", terms, lambda state: {"first": first, "lake": lake}).run()
    assert job.staged() == before != []


def test_a_missing_target_folder_does_not_stop_the_deletion(make: Make) -> None:
    job = make()
    shutil.rmtree(job.lake)
    shutil.rmtree(books(job.lake))
    assert job.client.delete().staged == {"lake": 0}
    assert not job.lake.exists()


# ---- after the deletion


def test_r3_a_deletion_fences_a_paused_driver(make: Make) -> None:
    job = make(None)
    asleep = job.claimed("t2", ELSEWHERE)
    job.client.delete(abandoned=True)
    with pytest.raises(FencedError):
        asleep.write(ev.CheckpointTriggered(3, 9.0))
    assert job.client.state().status is JobStatus.DELETED


def test_a_deleted_job_refuses_releases_and_requests(make: Make) -> None:
    job = make(FAILED, released=1)
    job.client.delete(unfinished=True, discard_unreleased=True)
    with pytest.raises(JobDeletedError, match=r"is DELETED since .* and was FAILED before.*use another job id"):
        job.client.release(job.definition(open_storage(job.lake.parent)))
    with pytest.raises(RequestRefusedError, match="its status is DELETED"):
        job.client.stop()
    assert job.client.checkpoints() == []


def test_listing_jobs_leaves_out_deleted_jobs_by_default(make: Make) -> None:
    job = make()
    Journal(job.storage, "visits").claim("t1", GONE, 1.0)
    job.client.delete()
    assert [state.job_id for state in list_jobs(job.root)] == ["visits"]
    assert [state.job_id for state in list_jobs(job.root, deleted=True)] == ["orders", "visits"]


def test_a_client_that_follows_the_journal_sees_the_deletion(make: Make) -> None:
    job = make()
    watching = job.client
    assert watching.read_state().status is FINISHED
    job.client.delete()
    assert watching.wait(lambda state: state.status is JobStatus.DELETED, timeout=60, poll=0).has_finished
    assert JobClient(job.root, "orders").wait(timeout=0).status is JobStatus.DELETED


def test_deletion_in_an_object_store_leaves_only_the_journal(make: Make) -> None:
    job = make()
    memory = open_storage(f"memory://{uuid.uuid4().hex}")
    for path, _ in job.storage.files(""):
        memory.create(path, job.storage.read(path))
    assert JobClient(memory, "orders").delete().was is FINISHED
    assert memory.list("orders") == ["journal"]
    assert JobClient(memory, "orders").delete().already
    memory.delete_tree("")


def test_a_client_accepts_an_open_storage(make: Make) -> None:
    job = make()
    assert JobClient(job.storage, "orders").delete().staged == {"lake": 1}
    assert JobClient(Location(str(job.root)), "orders").delete().already
