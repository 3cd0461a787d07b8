"""Results that a job keeps for other jobs (persist=True) from its FINISHED until a user deletes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt import (
    JobClient,
    NoSuchResultError,
    ResultNotPersistedError,
    collect_garbage,
)
from airflow_provider_ckpt.errors import DeletionRefusal
from airflow_provider_ckpt.jobmaster.errors import JobNotDeletedError, SubtaskLogLostError
from airflow_provider_ckpt.jobmaster.retention.collector import clean_up
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.errors import PartitionFilesDamagedError
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, Verbs, WrappedStorage, crash_points
from tests.client.persisted_job import GRAPH, JOB, PERSISTED_FILES, SCHEMA, PersistedJob

CLEAN = SubtaskId("clean/1")


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(f"memory://{tmp_path}")


def clean(storage: Storage) -> None:
    clean_up(storage, JOB, GRAPH, {})


def test_a_persisted_result_is_complete_when_the_job_has_finished(storage: Storage) -> None:
    job = PersistedJob(storage)
    clean(storage)
    result = JobClient(storage, JOB).persisted_result("clean")
    files = [storage.spark_uri(f"{JOB}/vertices/{path}") for path in PERSISTED_FILES if "part-" in path]
    assert (result.files, result.rows, result.bytes, result.schema) == (tuple(files), 12, 24, SCHEMA)
    assert [job.storage.read(f"{JOB}/vertices/{path}") for path in PERSISTED_FILES] == [b"row"] * 12


@pytest.mark.parametrize(
    "status",
    [status for status in JobStatus if status not in (JobStatus.FINISHED, JobStatus.DELETING, JobStatus.DELETED)],
)
def test_reading_a_result_before_the_job_has_finished_is_refused(storage: Storage, status: JobStatus) -> None:
    PersistedJob(storage, status)
    with pytest.raises(ResultNotPersistedError, match=f"is {status}. Read it when"):
        JobClient(storage, JOB).persisted_result("clean")


def test_reading_a_result_of_a_job_that_was_only_claimed_is_refused(storage: Storage) -> None:
    Journal(open_root(storage), JOB).claim("t1", Worker(), 1.0)
    with pytest.raises(ResultNotPersistedError, match="is not RUNNING yet"):
        JobClient(storage, JOB).persisted_result("clean")


def test_an_operator_without_a_result_is_refused_with_a_list(storage: Storage) -> None:
    PersistedJob(storage)
    with pytest.raises(NoSuchResultError, match=r"keeps no result of 'count'.* are: clean"):
        JobClient(storage, JOB).persisted_result("count")


@pytest.mark.parametrize("harm", ["gone", "cut"])
def test_a_lost_or_truncated_result_file_is_named(storage: Storage, harm: str) -> None:
    job = PersistedJob(storage)
    path = f"{JOB}/vertices/{PERSISTED_FILES[-1]}"
    job.storage.delete(path)
    if harm == "cut":
        job.storage.create(path, b"")
    with pytest.raises(
        PartitionFilesDamagedError, match=f"{PERSISTED_FILES[-1]}.*'clean' of job 'days'.*run that job under another"
    ):
        JobClient(storage, JOB).persisted_result("clean")


# ---- the clean-up at the end of the job


def test_r16_the_clean_up_keeps_only_files_that_the_logs_name(storage: Storage) -> None:
    job = PersistedJob(storage)
    assert len(job.data()) > len(PERSISTED_FILES)
    clean(storage)
    assert job.data() == PERSISTED_FILES
    late = job.write_batch(CLEAN, "0001-aa", 7)
    clean(storage)
    assert job.data() == PERSISTED_FILES, late


@pytest.mark.slow
def test_r16_a_clean_up_that_dies_anywhere_keeps_the_result(
    tmp_path: Path,
) -> None:
    counted = WrappedStorage(PersistedJob(open_storage(f"memory://{tmp_path}/all")).storage, verbs := Verbs())
    clean(counted)
    assert verbs.count >= 8
    for number, when in crash_points(verbs.count):
        job = PersistedJob(open_storage(f"memory://{tmp_path}/{number}-{when}"))
        with pytest.raises(SimulatedCrash):
            clean(CrashingStorage(job.storage, number, when))
        assert {*PERSISTED_FILES} <= {*job.data()}
        clean(job.storage)
        assert job.data() == PERSISTED_FILES


@pytest.mark.parametrize("entries", ["all", "the end"])
def test_a_damaged_log_keeps_the_result_from_the_clean_up(storage: Storage, entries: str) -> None:
    job = PersistedJob(storage)
    log = subtask_log_path(JOB, CLEAN.vertex, CLEAN.number)
    names = sorted(job.storage.list(log))
    for name in names if entries == "all" else names[-1:]:
        job.storage.delete(f"{log}/{name}")
    before = job.data()
    with pytest.raises(SubtaskLogLostError, match=r"clean/1.* has no end"):
        clean(storage)
    assert job.data() == before
    with pytest.raises(SubtaskLogLostError, match=r"clean/1.* has no end"):
        JobClient(storage, JOB).persisted_result("clean")


# ---- other deletions


def test_a_collection_finds_late_files_but_no_persisted_result(storage: Storage) -> None:
    job = PersistedJob(storage)
    clean(storage)
    assert collect_garbage(storage, delete=True).files == 0
    job.write_batch(CLEAN, "0001-aa", 7)
    report = collect_garbage(storage)
    assert [garbage.path for garbage in report.jobs[0].garbage] == [
        f"{job.partition(CLEAN)}/clean__count/data/0001-aa-7-n"
    ]
    collect_garbage(storage, delete=True)
    assert job.data() == PERSISTED_FILES


def test_a_collection_without_a_clean_up_keeps_the_persisted_result(storage: Storage) -> None:
    job = PersistedJob(storage)
    assert collect_garbage(storage, delete=True).files > 0
    assert job.data() == PERSISTED_FILES


def test_deleting_a_persisted_result_needs_the_persisted_flag(storage: Storage) -> None:
    job = PersistedJob(storage)
    client = JobClient(storage, JOB)
    clean(storage)
    with pytest.raises(JobNotDeletedError, match=r"results of clean are kept.*--persisted") as refused:
        client.delete(unfinished=True, abandoned=True, discard_unreleased=True)
    assert refused.value.reason is DeletionRefusal.PERSISTED_RESULTS
    assert job.data() == PERSISTED_FILES
    assert client.delete(persisted=True).files >= len(PERSISTED_FILES)
    assert job.data() == []
    with pytest.raises(NoSuchResultError, match="DELETED"):
        client.persisted_result("clean")


# ---- as partitions


def test_a_finished_job_has_the_partitions_of_its_persisted_results(storage: Storage) -> None:
    PersistedJob(storage)
    clean(storage)
    partitions = JobClient(storage, JOB).get_partition_with_metrics(["clean"])
    assert [
        (partition.subtask, partition.rows, partition.bytes, partition.files, partition.is_finished)
        for partition in partitions
    ] == [
        ("clean/0", 6, 12, 4, True),
        ("clean/1", 6, 12, 4, True),
    ]
