"""Races of ``ckpt gc`` with drivers that take the job over at any storage verb.

No file goes missing that the driver needs, or that the driver's entries name.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_ckpt.client.garbage_collection import collect_garbage
from airflow_provider_ckpt.jobmaster.retention.garbage import Garbage, Reason
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.layout import frozen_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.storage.root import read_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.prepared_store import Prepared
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, Verbs, WrappedStorage, crash_points
from tests.client.crashed_job import GRAPH, HISTORY, CrashedJob, V
from tests.client.ended_job import HERE
from tests.support.books import books

Act = Callable[[str, str], None]


class Met(WrappedStorage):
    """Storage that calls ``act`` before every verb, reads included."""

    def __init__(self, inner: Storage, act: Act) -> None:
        super().__init__(inner)
        self.act = act

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        self.act(verb, path)
        act()

    def read(self, path: str) -> bytes:
        self.act("read", path)
        return super().read(path)

    def exists(self, path: str) -> bool:
        self.act("exists", path)
        return super().exists(path)

    def size(self, path: str) -> int:
        self.act("size", path)
        return super().size(path)

    def list(self, path: str) -> list[str]:
        self.act("list", path)
        return super().list(path)

    def files(self, path: str) -> Sizes:
        self.act("files", path)
        return super().files(path)

    def temporary(self, path: str, older_than: float, *, deep: bool = True) -> Sizes:
        self.act("temporary", path)
        return super().temporary(path, older_than, deep=deep)


class Driver:
    """Driver that takes ``pace`` steps at the ``at``-th verb of another process, and at every later verb."""

    def __init__(self, steps: Iterator[None], at: int, pace: int) -> None:
        self.steps, self.at, self.pace, self.verbs = steps, at, pace, 0

    def meet(self, verb: str, path: str) -> None:
        self.verbs += 1
        if self.verbs >= self.at:
            for _ in range(self.pace):
                next(self.steps, None)

    def finish(self) -> None:
        for _ in self.steps:
            pass


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    CrashedJob.run(folder)
    return folder


def restore_copy(first: Path, folder: Path) -> CrashedJob:
    """Restore the job in the same place, because the journal has the path of the lake."""
    for part in ("root", "_ckpt-lake"):
        shutil.rmtree(folder / part, ignore_errors=True)
        shutil.copytree(first / part, folder / part)
    return CrashedJob(folder)


def collect(job: CrashedJob, act: Act) -> set[str]:
    """Collect garbage and return the deleted paths.

    The journal leads to the sink, in the lake of the first job.
    """
    [done] = collect_garbage(Met(job.storage, act), "orders", delete=True).jobs
    return {garbage.path for garbage in done.garbage}


def named(job: CrashedJob, part: str) -> set[str]:
    """Return the files whose path contains ``part``, without requests, whose random names may contain anything."""
    return {path for path in job.files() if part in path and "requests/" not in path}


def verbs_of_a_collection(job: CrashedJob) -> list[str]:
    seen: list[str] = []
    collect(job, lambda verb, path: seen.append(f"{verb} {path}"))
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("pace", [1, 100])
def test_r5_a_driver_can_start_at_any_verb_of_a_collection(first: Path, tmp_path: Path, pace: int) -> None:
    job = CrashedJob.run(tmp_path)
    shutil.copytree(tmp_path, first / f"copy{pace}")
    verbs = verbs_of_a_collection(job)
    assert len(verbs) > 60
    job = restore_copy(first / f"copy{pace}", tmp_path)
    Driver(job.next_driver(), 0, 0).finish()
    alone = named(job, "/0004")
    some, none = 0, 0
    for at in range(1, len(verbs) + 1):
        job = restore_copy(first / f"copy{pace}", tmp_path)
        driver = Driver(job.next_driver(), at, pace)
        deleted = collect(job, driver.meet)
        driver.finish()
        where = (at, verbs[at - 1], sorted(deleted))
        assert job.missing() == [], where
        assert job.storage.exists("orders/frozen/history.json"), where
        assert job.storage.exists("orders/checkpoints/chk-2/_metadata"), where
        assert len(pending_requests(job.storage, "orders", 4, ())) == 1, where
        assert named(job, "/0004") == alone, where
        some, none = some + bool(deleted), none + (not deleted)
    assert some > 10
    assert none > 10


@pytest.mark.slow
@pytest.mark.parametrize("pace", [1, 100])
def test_r5_reported_garbage_may_be_deleted_at_any_later_time(first: Path, tmp_path: Path, pace: int) -> None:
    """The result must not depend on claims, because a driver may always act between a listing and a deletion."""
    job = CrashedJob.run(tmp_path)
    shutil.copytree(tmp_path, first / f"told{pace}")
    Driver(job.next_driver(), 0, 0).finish()
    alone = named(job, "/0004")
    at, verbs_of_driver = 0, 1
    while verbs_of_driver >= at:
        at += 1
        job = restore_copy(first / f"told{pace}", tmp_path)
        driver = Driver(job.next_driver(), at, pace)
        garbage = list_during(job, driver.meet)
        verbs_of_driver = driver.verbs
        driver.finish()
        delete_by_hand(job, garbage)
        assert (job.missing(), named(job, "/0004")) == ([], alone), (at, garbage)
    assert at > 30


def test_r11_garbage_of_a_removed_operator_has_no_files_of_its_return(first: Path, tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    removed = job.claimed(4)
    removed.write(ev.PlanRecorded(JobGraph(GRAPH.vertices[1:], ()), {}, 6.0, job.definition()))
    removed.write(ev.StatusChanged(JobStatus.STOPPED, 7.0))
    shutil.copytree(tmp_path, first / "back")
    at, verbs_of_driver, some = 0, 1, 0
    while verbs_of_driver >= at:
        at += 1
        job = restore_copy(first / "back", tmp_path)
        driver = Driver(return_of_operator(job), at, 100)
        collected = list_during(job, driver.meet)
        verbs_of_driver = driver.verbs
        driver.finish()
        new = named(job, "0005")
        delete_by_hand(job, collected)
        assert named(job, "0005") == new, (at, collected)
        some += bool([garbage for garbage in collected if garbage.reason is Reason.OPERATOR])
    assert len(new) > 5
    assert some > 10


def return_of_operator(job: CrashedJob) -> Iterator[None]:
    """Claim epoch 5 and start a removed operator from scratch."""
    journal = job.claimed(5)
    journal.write(ev.PlanRecorded(GRAPH, {}, 8.0, job.definition()))
    job.storage.create(frozen_path("orders", "history", 5), b"{}")
    for subtask in GRAPH.subtasks:
        log = job.begun(subtask, 5)
        batch = job.staged_batch(subtask, 5, 7)
        job.prepared(subtask).write(Prepared(AttemptId(5, 0, "n5"), 7, batch.files, batch.handles))
        log.append_batch(batch)
    yield


def test_a_file_deleted_during_the_search_is_no_problem(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    gone: list[str] = []

    def forget(verb: str, path: str) -> None:
        if verb == "size" and "requests/" in path:
            gone.append(path)
            job.storage.delete(path)

    collected = list_during(job, forget)
    assert len(gone) == 1
    assert Reason.REQUEST not in {garbage.reason for garbage in collected}


def list_during(job: CrashedJob, act: Act) -> list[Garbage]:
    [job_garbage] = collect_garbage(Met(job.storage, act), "orders").jobs
    assert job_garbage.problem is None
    return list(job_garbage.garbage)


def delete_by_hand(job: CrashedJob, collected: list[Garbage]) -> None:
    staging = open_storage(books(job.lake))
    for garbage in collected:
        if garbage.sink is not None:
            staging.delete_tree(f"orders/lake/staging/{garbage.path}")
        else:
            job.storage.delete_tree(garbage.path)


def test_a_claim_between_the_two_listings_keeps_all_garbage(tmp_path: Path) -> None:
    """The new driver collects by itself, and until then the garbage does no harm."""
    job = CrashedJob.run(tmp_path)
    before, looks = job.files(), []

    def claim(verb: str, path: str) -> None:
        if (verb, path) == ("temporary", "orders"):  # the end of a listing
            looks.append(path)
            if len(looks) == 1:
                job.claimed(4)

    assert collect(job, claim) == set()
    assert job.files() == before


def test_a_claim_during_the_deletion_stops_it(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    deleted: list[str] = []

    def claim(verb: str, path: str) -> None:
        if verb.startswith("delete"):
            deleted.append(path)
            if len(deleted) == 3:
                job.claimed(4)

    [done] = collect_garbage(Met(job.storage, claim), "orders", delete=True).jobs
    assert [garbage.path for garbage in done.garbage] == deleted
    assert len(deleted) == 3
    assert done.skipped == ("it was claimed in epoch 4 during the search: its new driver collects by itself")


def test_a_live_driver_at_the_second_listing_stops_the_collection(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    looks: list[str] = []

    def live(verb: str, path: str) -> None:
        if (verb, path) == ("temporary", "orders"):
            looks.append(path)
            if len(looks) == 1:
                job.claimed(4, HERE)

    before = job.files()
    assert collect(job, live) == set()
    assert job.files() == before


def test_files_that_only_the_first_listing_reports_stay(tmp_path: Path) -> None:
    """Only garbage that both listings report is deleted, whatever the rules are by then.

    The test removes a marker between the listings, which no process does.
    """
    job = CrashedJob.run(tmp_path)
    looks: list[str] = []

    def unmark(verb: str, path: str) -> None:
        if (verb, path) == ("temporary", "orders"):
            looks.append(path)
            if len(looks) == 1:
                job.storage.delete("orders/vertices/history/0/spark/0003-n3.json")

    assert not any("history/0/spark" in path for path in collect(job, unmark))
    assert "orders/vertices/history/0/spark/0002-n2.json" in {
        f"orders/{path}" for path, _ in job.storage.files("orders")
    }


def test_r8_a_subtask_that_is_being_taken_over_has_no_garbage(tmp_path: Path) -> None:
    """The new attempt is copying its predecessor's folder."""
    job = CrashedJob.run(tmp_path)

    def opened(verb: str, path: str) -> None:
        if (verb, path) == ("files", "orders/vertices/history/0"):
            job.log(HISTORY).open(AttemptId(4, 0, "n4"))

    collected = list_during(job, opened)
    assert [
        garbage.path for garbage in collected if "history/0" in garbage.path and garbage.reason is Reason.ATTEMPT
    ] == []
    assert [garbage for garbage in collected if "v/0" in garbage.path]


def test_r1_a_late_batch_of_a_live_older_attempt_is_kept(
    tmp_path: Path,
) -> None:
    """The attempt of epoch 3 died before its folder was complete, and that of epoch 2 lives.

    The next attempt takes over the folder of epoch 2. Its newest staged batch may still be unnamed.
    """
    job = CrashedJob.run(tmp_path)
    for subtask in (HISTORY, V):
        job.storage.delete(f"{job.home(subtask)}/spark/0003-n3.json")
    second = AttemptId(2, 0, "n2")
    staged = {subtask: job.staged_batch(subtask, 2, 1, "late") for subtask in GRAPH.subtasks}
    deleted = collect(job, lambda verb, path: None)
    for subtask, batch in staged.items():
        job.prepared(subtask).write(Prepared(second, 1, batch.files, batch.handles))
    for _ in job.next_driver():
        pass
    assert job.missing() == []
    assert not any("0002-n2-1-late" in path for path in deleted)


def test_r5_a_publication_during_the_search_loses_no_file(first: Path, tmp_path: Path) -> None:
    """The newest attempt lives, and publishes its predecessor's prepared batch while the collection reads."""
    job = CrashedJob.run(tmp_path)
    shutil.copytree(tmp_path, first / "published")
    at, verbs_of_driver = 0, 1
    while verbs_of_driver >= at:
        at += 1
        job = restore_copy(first / "published", tmp_path)
        driver = Driver(recovered(job), at, 1)
        garbage = list_during(job, driver.meet)
        verbs_of_driver = driver.verbs
        driver.finish()
        delete_by_hand(job, garbage)
        assert job.missing() == [], (at, garbage)
    assert at > 30


def recovered(job: CrashedJob) -> Iterator[None]:
    for subtask in GRAPH.subtasks:
        recover(job, subtask)
    yield


def recover(job: CrashedJob, subtask: SubtaskId) -> None:
    record = job.prepared(subtask).read(AttemptId(2, 0, "n2"))
    assert record is not None
    log = job.log(subtask)
    log.append_batch(Batch(record.batch_id, {}, files=record.files, handles=record.handles))
    job.prepared(subtask).delete_before(AttemptId(3, 0, "n3"))


# ---- the collection dies, or gets no answer


def test_a_collection_that_dies_at_any_verb_can_be_repeated(first: Path, tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    shutil.copytree(tmp_path, first / "dies")
    verbs = Verbs()
    collect_garbage(CrashingStorage(job.storage, verbs=verbs), "orders", delete=True)
    whole = job.files()
    assert verbs.count > 10
    for at, when in crash_points(verbs.count):
        job = restore_copy(first / "dies", tmp_path)
        with pytest.raises(SimulatedCrash):
            collect_garbage(CrashingStorage(job.storage, at, when), "orders", delete=True)
        assert job.missing() == []
        collect(job, lambda verb, path: None)
        assert (job.files(), job.missing()) == (whole, []), (at, when)


def test_a_storage_error_is_never_taken_for_an_empty_folder(first: Path, tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    shutil.copytree(tmp_path, first / "mute")
    before, staged = job.files(), job.staged()
    verbs = verbs_of_a_collection(job)
    first_deletion = next(at for at, verb in enumerate(verbs) if verb.startswith("delete"))
    looks = [at for at, verb in enumerate(verbs[:first_deletion]) if " orders" in verb]
    looks.remove(verbs.index("list orders/journal"))  # a folder that cannot be listed is read as a job
    assert len(looks) > 30
    for at in looks:
        job = restore_copy(first / "mute", tmp_path)
        seen: list[str] = []

        def fail(verb: str, path: str, at: int = at, seen: list[str] = seen) -> None:
            seen.append(path)
            if len(seen) == at + 1:
                raise StorageTransientError(verb=verb, uri=path, reason="no answer")

        try:
            [done] = collect_garbage(Met(read_root(job.storage), fail), "orders", delete=True).jobs
        except StorageTransientError:
            continue  # before any job was read
        where = (at, verbs[at])
        assert done.problem is not None, where
        assert (done.garbage, job.files(), job.staged()) == ((), before, staged), where


def test_a_failed_deletion_reports_the_garbage_deleted_before_it(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    deleted: list[str] = []

    def fail(verb: str, path: str) -> None:
        if verb.startswith("delete"):
            deleted.append(path)
            if len(deleted) == 4:
                raise StorageTransientError(verb=verb, uri=path, reason="no answer")

    report = collect_garbage(Met(job.storage, fail), delete=True)
    [done] = report.jobs
    assert [garbage.path for garbage in done.garbage] == deleted[:3]
    assert "no answer" in report.problems["orders"]
    assert (done.status, job.missing()) == (JobStatus.STOPPED, [])
