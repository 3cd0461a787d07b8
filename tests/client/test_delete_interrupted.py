"""Deletions that die, fail or are overtaken at any storage verb.

The next deletion completes them. A driver either finds the job complete or is refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.jobmaster.errors import JobNotDeletedError
from airflow_provider_ckpt.jobmaster.retention.job_deletion import DeletedJob
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.errors import FencedError, JobDeletedError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.spark.preparation.decision import decide
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.storage.root import read_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import (
    CrashingStorage,
    SimulatedCrash,
    Verbs,
    WrappedStorage,
    crash_points,
)
from tests.client.ended_job import GONE, EndedJob

STATUSES = [JobStatus.FINISHED, JobStatus.FAILED, JobStatus.RUNNING]
UNRELEASED = 1


class FileByFile(CrashingStorage):
    """Storage that deletes a tree file by file, so that the process may die between any two files."""

    def delete_tree(self, path: str) -> None:
        for name, _ in self.inner.files(path):
            self.delete(f"{path}/{name}")
        super().delete_tree(path)

    def _wrap(self, inner: Storage) -> FileByFile:
        return FileByFile(inner, self.at, self.when, self.verbs)


@dataclass
class Worlds:
    """Source of jobs, each a copy of the first one."""

    folder: Path
    status: JobStatus
    count: int = 0

    def __post_init__(self) -> None:
        EndedJob.run(self.folder / "first", self.status, released=UNRELEASED)

    def another(self, of: EndedJob | None = None) -> EndedJob:
        """Return a copy of the job.

        Its journaled paths still lead to the lake of the first job, so callers pass the sinks.
        """
        self.count += 1
        folder = self.folder / str(self.count)
        shutil.copytree(self.folder / "first" if of is None else of.folder, folder)
        return EndedJob(folder)


def delete(job: EndedJob, root: Storage, lake: Storage) -> DeletedJob:
    client = JobClient(root, "orders")
    return client.delete(job.definition(lake), unfinished=True, abandoned=True, discard_unreleased=True)


def delete_again(job: EndedJob) -> DeletedJob:
    return delete(job, read_root(open_storage(job.root)), open_storage(job.folder))


def take_over(job: EndedJob) -> JobState:
    """Claim the job as a driver does. The driver decides from the very state that its claim follows."""
    options = RunOptions(job="orders.py:job", root=str(job.root), job_id="orders", resume_failed=True)
    journal = Journal(job.storage, "orders")

    def admit(state: JobState) -> None:
        decided.append(decide(job.storage, options, state))

    decided: list[object] = []
    journal.claim("shop~t2", Worker(), 9.0, admit)
    assert decided
    return journal.state


def is_whole(job: EndedJob, first: EndedJob) -> bool:
    return (job.files(), job.staged()) == (first.files(), first.staged())


def is_gone(job: EndedJob) -> bool:
    return (job.parts(), job.staged()) == (["journal"], [])


@pytest.mark.slow
@pytest.mark.parametrize("status", STATUSES)
def test_r16_a_deletion_that_dies_at_any_verb_can_be_completed(status: JobStatus, tmp_path: Path) -> None:
    worlds = Worlds(tmp_path, status)
    first, verbs = EndedJob(tmp_path / "first"), Verbs()
    whole = worlds.another()
    delete(whole, FileByFile(whole.storage, verbs=verbs), FileByFile(open_storage(whole.folder), verbs=verbs))
    assert is_gone(whole)
    assert verbs.count > 25, verbs.log
    refused = 0
    for at, when in crash_points(verbs.count):
        where, job, counted = (at, when, verbs.log[at - 1]), worlds.another(), Verbs()
        root = FileByFile(job.storage, at, when, counted)
        with pytest.raises(SimulatedCrash):
            delete(job, root, FileByFile(open_storage(job.folder), at, when, counted))
        state = job.client.state()
        assert state.damage == [], where
        assert (state.status is JobStatus.DELETED) <= is_gone(job), where
        driver = worlds.another(job)
        try:
            taken = take_over(driver)
        except JobDeletedError:
            refused += 1
            assert state.deletion is not None, where
            assert driver.files() == job.files(), where
        else:
            assert state.deletion is None, where
            assert is_whole(driver, first), where
            assert taken.checkpoints == first.client.state().checkpoints, where
        again = delete_again(job)
        assert again.was is status, where
        assert is_gone(job), where
        assert job.output() == first.output(), where
        assert job.client.state().status is JobStatus.DELETED, where
        with pytest.raises(JobDeletedError):
            take_over(job)
        assert delete_again(job).already, where
        for gone in (job, driver):
            shutil.rmtree(gone.folder)
    assert refused > 20


class FailingLooks(WrappedStorage):
    """Storage whose ``at``-th verb fails once, reads included; later verbs succeed."""

    def __init__(self, inner: Storage, at: int | None, verbs: Verbs) -> None:
        super().__init__(inner, verbs)
        self.at = at

    def _look(self, verb: str, path: str) -> None:
        if self.verbs.next(verb, path) == self.at:
            raise StorageTransientError(verb=verb, uri=self.full_uri(path), reason="no answer")

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        self._look(verb, path)
        act()

    def read(self, path: str) -> bytes:
        self._look("read", path)
        return super().read(path)

    def exists(self, path: str) -> bool:
        self._look("exists", path)
        return super().exists(path)

    def list(self, path: str) -> list[str]:
        self._look("list", path)
        return super().list(path)

    def files(self, path: str) -> Sizes:
        self._look("files", path)
        return super().files(path)

    def _wrap(self, inner: Storage) -> FailingLooks:
        return FailingLooks(inner, self.at, self.verbs)


def test_a_storage_error_is_never_taken_for_an_empty_folder(tmp_path: Path) -> None:
    worlds, verbs = Worlds(tmp_path, JobStatus.FAILED), Verbs()
    whole = worlds.another()
    delete(whole, FailingLooks(whole.storage, None, verbs), FailingLooks(open_storage(whole.folder), None, verbs))
    failed = 0
    for at in range(1, verbs.count + 1):
        where, job, counted = (at, verbs.log[at - 1]), worlds.another(), Verbs()
        try:
            delete(job, FailingLooks(job.storage, at, counted), FailingLooks(open_storage(job.folder), at, counted))
        except TransientError:
            failed += 1
            assert (job.client.state().status is JobStatus.DELETED) <= is_gone(job), where
        else:
            assert is_gone(job), where  # an append asks again by itself
        assert delete_again(job).was is JobStatus.FAILED, where
        assert is_gone(job), where
        shutil.rmtree(job.folder)
    assert failed > 25


# ---- another process at the same time


class Between(WrappedStorage):
    """Storage that calls ``act`` once, before the first given verb on the given path."""

    def __init__(self, inner: Storage, verb: str, path: str, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self.at, self.act, self.done = (verb, path), act, False

    def _meet(self, verb: str, path: str) -> None:
        if not self.done and (verb, path) == self.at:
            self.done = True
            self.act()

    def list(self, path: str) -> list[str]:
        self._meet("list", path)
        return super().list(path)

    def delete_tree(self, path: str) -> None:
        self._meet("delete_tree", path)
        super().delete_tree(path)


def test_r8_a_claim_during_the_search_stops_the_deletion(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path, JobStatus.FAILED)
    files, staged, drivers = job.files(), job.staged(), []
    root = Between(job.storage, "list", "orders/vertices", lambda: drivers.append(job.claimed("shop~t2")))
    with pytest.raises(FencedError, match="owned by attempt shop~t2"):
        JobClient(root, "orders").delete(unfinished=True)
    assert (job.files(), job.staged()) == (files, staged)
    drivers[0].write(ev.StatusChanged(JobStatus.RUNNING, 9.0))
    assert job.client.state().status is JobStatus.RUNNING


def test_a_deletion_sees_a_driver_that_claimed_first(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path, JobStatus.FAILED)
    files = job.files()
    claims: list[Journal] = []

    class Faster(WrappedStorage):
        def create(self, path: str, data: bytes) -> None:
            if not claims:
                claims.append(job.claimed("shop~t2"))
            super().create(path, data)

    with pytest.raises(JobNotDeletedError, match="is CREATED and is not deleted"):
        JobClient(Faster(job.storage), "orders").delete(unfinished=True)
    assert (job.files(), job.client.state().epoch) == (files, 2)


def test_the_later_of_two_concurrent_deletions_completes(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path)
    output, later = job.output(), []
    root = Between(job.storage, "delete_tree", "orders/vertices", lambda: later.append(job.client.delete()))
    with pytest.raises(FencedError):
        JobClient(root, "orders").delete()
    assert [deletion.was for deletion in later] == [JobStatus.FINISHED]
    assert is_gone(job)
    assert (job.output(), job.client.state().status) == (output, JobStatus.DELETED)


def test_a_deletion_fences_a_running_release(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path, JobStatus.FAILED, GONE, released=UNRELEASED)
    releasing = Journal(job.storage, "orders")
    releasing.claim("shop~t1~release", Worker(), 6.0, releases_only=True)
    job.client.delete(unfinished=True, discard_unreleased=True)
    with pytest.raises(FencedError):
        releasing.check_fenced()
    assert job.client.state().status is JobStatus.DELETED
