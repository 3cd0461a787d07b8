"""Deletion of a job that has ended: which jobs it takes, which files go or stay, and what it refuses. Needs no
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
from airflow_provider_ckpt.jobmaster.retention.deletion import DeletionTerms, JobDeletion
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
    return lambda *args, **given: EndedJob.run(tmp_path, *args, **given)


def test_a_finished_job_goes_with_what_it_had_and_what_it_released_stays(make: Make) -> None:
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


def test_what_stays_in_the_journal_is_the_claims_and_one_entry(make: Make) -> None:
    job = make()
    job.client.delete()
    entries = job.storage.list("orders/journal")
    assert entries == ["00000000.json", "00000009.json", "00000012.json", "head-00000012.json"]
    tombstone = Journal(job.storage, "orders")
    state = tombstone.replay()
    assert tombstone.is_compact
    assert (state.plan, state.created, state.checkpoints, [*state.releases]) == (None, None, {}, [1, 2])
    assert sum(len(job.storage.read(f"orders/journal/{name}")) for name in entries) < 3000


def test_once_deleted_nothing_is_written_by_asking_again(make: Make) -> None:
    job = make()
    job.client.delete()
    before = job.storage.files("")
    deleted = job.client.delete()
    assert (deleted.already, deleted.was, deleted.files) == (True, FINISHED, 0)
    assert job.storage.files("") == before


def test_what_a_driver_that_slept_has_written_meanwhile_is_deleted_by_asking_again(make: Make) -> None:
    job = make()
    job.client.delete()
    job.storage.create("orders/vertices/v/0/spark/0001-a1/offsets/9", b"1234")
    deleted = job.client.delete()
    assert (deleted.already, deleted.was, deleted.files, deleted.bytes) == (False, FINISHED, 1, 4)
    assert job.parts() == ["journal"]
    assert job.client.delete().already


# ---- which jobs


@pytest.mark.parametrize("status", [STOPPED, FAILED])
def test_one_that_has_not_finished_is_deleted_if_that_is_said(make: Make, status: JobStatus) -> None:
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
def test_one_that_somebody_may_run_is_deleted_if_nobody_is_said_to(
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
def test_one_whose_driver_is_seen_alive_is_refused_whatever_is_said(make: Make, status: JobStatus) -> None:
    """A driver that has reported the end of the job may still be alive."""
    job = make(status, HERE)
    before = job.storage.files("")
    with pytest.raises(JobNotDeletedError, match=f"is {status} .* its driver lives"):
        job.client.delete(unfinished=True, abandoned=True, discard_unreleased=True)
    assert job.storage.files("") == before


def test_one_whose_first_driver_has_only_claimed_it_is_refused(tmp_path: Path) -> None:
    job = EndedJob(tmp_path)
    job.claimed("t1", ELSEWHERE)
    with pytest.raises(JobNotDeletedError, match="is not RUNNING yet and"):
        job.client.delete(unfinished=True)
    assert job.client.delete(abandoned=True).was is None
    with pytest.raises(JobDeletedError, match="was not RUNNING yet before"):
        job.client.state().refuse_deleted()


@pytest.mark.parametrize("status", [STOPPED, FAILED, RESTARTING])
def test_r16_what_is_completed_and_not_released_is_not_lost_unsaid(make: Make, status: JobStatus) -> None:
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


def test_r16_a_finished_job_is_asked_the_same(make: Make) -> None:
    job = make(released=0)
    with pytest.raises(JobNotDeletedError, match="and released none"):
        job.client.delete()


def test_a_job_that_was_never_run_is_told(make: Make, tmp_path: Path) -> None:
    make()
    with pytest.raises(NoSuchJobError):
        JobClient(tmp_path / "root", "visits").delete()
    with pytest.raises(NoRootError):
        JobClient(tmp_path / "elsewhere", "orders").delete()
    assert not (tmp_path / "elsewhere").exists()


def test_a_journal_that_is_gone_is_no_job_that_was_never_run(make: Make) -> None:
    job = make()
    shutil.rmtree(job.root / "orders" / "journal")
    before = job.files()
    with pytest.raises(CorruptJournalError, match="the job's folder has files of its queries"):
        job.client.delete(unfinished=True)
    assert job.files() == before


def test_a_damaged_journal_deletes_nothing(make: Make) -> None:
    job = make()
    sorted((job.root / "orders" / "journal").glob("*.json"))[-1].write_text("{")
    before = job.files()
    with pytest.raises(CorruptJournalError):
        job.client.delete(unfinished=True)
    assert job.files() == before


# ---- staged output


def test_r5_what_a_job_of_the_same_id_under_another_root_has_staged_stays(make: Make) -> None:
    job = make()
    job.stage("0001-zz", 1)
    assert job.client.delete().staged == {"lake": 1}
    assert job.staged() == ["0001-zz-1-n1"]


def test_of_a_log_that_is_damaged_what_is_known_goes(make: Make) -> None:
    """A user must be able to delete a damaged job."""
    job = make(FAILED)
    log = job.root / subtask_log_path("orders", "v", 0)
    (log / "00000003.json").write_text("{")
    assert job.client.delete(unfinished=True).staged == {"lake": 1}
    assert (job.parts(), job.staged()) == (["journal"], [])


def test_staged_output_can_be_left_alone(make: Make) -> None:
    job = make()
    deleted = job.client.delete(keep_staged=True)
    assert (deleted.staged, deleted.left) == ({}, ("lake",))
    assert (job.parts(), job.staged()) == (["journal"], ["0001-a1-3-n3"])


def test_a_sink_of_another_kind_is_named_and_cleaned_up_with_the_definition(make: Make, tmp_path: Path) -> None:
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


def test_of_a_journal_that_does_not_tell_its_sinks_what_is_staged_is_left_and_named(make: Make) -> None:
    job = make(None)
    journal = job.claimed("t2")
    journal.write(ev.PlanRecorded(GRAPH, {}, 6.0, STREAMING))
    journal.write(ev.StatusChanged(FINISHED, 7.0))
    assert job.client.delete().left == ("lake",)
    assert (job.parts(), len(job.staged())) == (["journal"], 1)


def test_a_target_that_cannot_be_reached_stops_the_deletion_and_it_goes_on_when_asked_again(make: Make) -> None:
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


def test_one_target_that_does_not_answer_keeps_nothing_of_the_others(make: Make) -> None:
    job = make()
    lake: Any = job.sink.bind(SinkContext("orders", "lake"))

    def no_answer(*given: object) -> list[str]:
        raise ConnectionError("no answer")

    first: Any = SimpleNamespace(collect_garbage=no_answer)
    terms = DeletionTerms(False, False, False, False, False)
    deletion = JobDeletion(job.storage, "orders", terms, lambda state: {"first": first, "lake": lake})
    with pytest.raises(StagedOutputLeftError, match=r"sink first of job 'orders'.*no answer"):
        deletion.run()
    assert job.staged() == []
    assert "vertices" in job.parts()


def test_one_that_was_overtaken_deletes_nothing_of_the_others(make: Make) -> None:
    job = make()
    lake: Any = job.sink.bind(SinkContext("orders", "lake"))

    def overtaken(*given: object) -> list[str]:
        raise FencedError(job_id="orders", epoch=3, attempt="a", worker="w", own_epoch=2)

    first: Any = SimpleNamespace(collect_garbage=overtaken)
    terms = DeletionTerms(False, False, False, False, False)
    before = job.staged()
    with pytest.raises(StagedOutputLeftError, match="sink first of job 'orders'"):
        JobDeletion(job.storage, "orders", terms, lambda state: {"first": first, "lake": lake}).run()
    assert job.staged() == before != []


def test_a_target_that_is_gone_with_its_folder_holds_up_nothing(make: Make) -> None:
    job = make()
    shutil.rmtree(job.lake)
    shutil.rmtree(books(job.lake))
    assert job.client.delete().staged == {"lake": 0}
    assert not job.lake.exists()


# ---- after the deletion


def test_r3_the_driver_that_slept_through_it_finds_its_number_taken(make: Make) -> None:
    job = make(None)
    asleep = job.claimed("t2", ELSEWHERE)
    job.client.delete(abandoned=True)
    with pytest.raises(FencedError):
        asleep.write(ev.CheckpointTriggered(3, 9.0))
    assert job.client.state().status is JobStatus.DELETED


def test_a_deleted_job_is_neither_released_nor_asked_anything(make: Make) -> None:
    job = make(FAILED, released=1)
    job.client.delete(unfinished=True, discard_unreleased=True)
    with pytest.raises(JobDeletedError, match=r"is DELETED since .* and was FAILED before.*use another job id"):
        job.client.release(job.definition(open_storage(job.lake.parent)))
    with pytest.raises(RequestRefusedError, match="its status is DELETED"):
        job.client.stop()
    assert job.client.checkpoints() == []


def test_the_jobs_of_a_root_are_those_that_are_there(make: Make) -> None:
    job = make()
    Journal(job.storage, "visits").claim("t1", GONE, 1.0)
    job.client.delete()
    assert [state.job_id for state in list_jobs(job.root)] == ["visits"]
    assert [state.job_id for state in list_jobs(job.root, deleted=True)] == ["orders", "visits"]


def test_whoever_follows_its_journal_sees_it_deleted(make: Make) -> None:
    job = make()
    watching = job.client
    assert watching.look().status is FINISHED
    job.client.delete()
    assert watching.wait(lambda state: state.status is JobStatus.DELETED, timeout=60, poll=0).has_finished
    assert JobClient(job.root, "orders").wait(timeout=0).status is JobStatus.DELETED


def test_in_an_object_store_no_folder_is_left_to_be_listed(make: Make) -> None:
    job = make()
    memory = open_storage(f"memory://{uuid.uuid4().hex}")
    for path, _ in job.storage.files(""):
        memory.create(path, job.storage.read(path))
    assert JobClient(memory, "orders").delete().was is FINISHED
    assert memory.list("orders") == ["journal"]
    assert JobClient(memory, "orders").delete().already
    memory.delete_tree("")


def test_the_storage_of_a_root_will_do(make: Make) -> None:
    job = make()
    assert JobClient(job.storage, "orders").delete().staged == {"lake": 1}
    assert JobClient(Location(str(job.root)), "orders").delete().already
