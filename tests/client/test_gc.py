"""Garbage under a root: which files `ckpt gc` finds, leaves and deletes. Needs no Spark."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.client.errors import NoSuchJobError
from airflow_provider_ckpt.client.garbage_collection import GarbageReport, collect_garbage
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.jobmaster.retention import garbage_search
from airflow_provider_ckpt.jobmaster.retention.garbage import JobGarbage, Reason
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition, SinkDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.errors import NoRootError
from airflow_provider_ckpt.storage.layout import frozen_path, late_path, subtask_log_path
from airflow_provider_ckpt.storage.opening import open_storage
from tests.client.crashed_job import DATA, GRAPH, HISTORY, PARTITION, CrashedJob, V
from tests.client.ended_job import ELSEWHERE, GONE, HERE, EndedJob
from tests.support.books import books

RUNNING, STOPPED, FINISHED = JobStatus.RUNNING, JobStatus.STOPPED, JobStatus.FINISHED
LOST = {
    *(f"{PARTITION}/{DATA}/0002-n2-1-lost", "orders/deployments/0001", "orders/checkpoints/chk-1"),
    *(f"{PARTITION}/history__v/feeds/000{n}" for n in (1, 2)),
    *(f"orders/vertices/{subtask}/scratch/{name}" for subtask in ("history/0", "v/0") for name in ("0001-n1-0-n",)),
    *(
        f"orders/vertices/{subtask}/scratch/0002-n2-1-{name}"
        for subtask in ("history/0", "v/0")
        for name in ("lost", "kept")
    ),
    *(f"orders/vertices/{subtask}/spark/0002-n2{end}" for subtask in ("history/0", "v/0") for end in ("", ".json")),
    *(f"orders/vertices/{subtask}/prepared/0001-n1.json" for subtask in ("history/0", "v/0")),
    "0002-n2-1-lost",
}


def collect_job(job: CrashedJob | EndedJob, *, delete: bool = False) -> JobGarbage:
    [job_garbage] = collect_garbage(job.root, "orders", delete=delete).jobs
    return job_garbage


def paths(job_garbage: JobGarbage) -> set[str]:
    return {garbage.path for garbage in job_garbage.garbage if garbage.reason is not Reason.REQUEST}


@pytest.mark.parametrize("status", [STOPPED, JobStatus.FAILED, JobStatus.RESTARTING, RUNNING])
def test_r5_garbage_of_ended_attempts_is_reported_and_not_deleted(tmp_path: Path, status: JobStatus) -> None:
    job = CrashedJob.run(tmp_path, status)
    before, staged = job.storage.files(""), job.staged()
    collected = collect_job(job)
    assert paths(collected) == LOST
    assert Counter(garbage.reason for garbage in collected.garbage)[Reason.REQUEST] == 1
    assert (collected.status, collected.skipped, collected.problem, collected.left) == (status, None, None, ())
    assert (job.storage.files(""), job.staged()) == (before, staged)


def test_a_deletion_removes_the_reported_garbage_and_the_job_resumes(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    reported = collect_job(job)
    before = job.files()
    deleted = collect_job(job, delete=True)
    assert deleted.garbage == reported.garbage
    gone = {f"orders/{path}" for path in before - job.files()}
    assert {garbage.path for garbage in reported.garbage if garbage.sink is None} == {
        next(garbage.path for garbage in reported.garbage if path.startswith(garbage.path)) for path in gone
    }
    assert len(gone) == sum(garbage.files for garbage in reported.garbage if garbage.sink is None)
    assert job.staged() == ["0001-n1-0-n", "0002-n2-1-kept", "0003-n3-1-lost"]
    assert (collect_job(job).garbage, job.missing()) == ((), [])
    for _ in job.next_driver():
        assert job.missing() == [] or job.log(HISTORY).position  # the folder is made after the log is opened
    assert job.missing() == []


def test_garbage_collection_does_not_write_to_the_journal(tmp_path: Path) -> None:
    """A claim would fence a live driver on another host, and its entry would stay forever."""
    job = CrashedJob.run(tmp_path)
    before = job.storage.files("orders/journal")
    collect_job(job, delete=True)
    assert job.storage.files("orders/journal") == before


@pytest.mark.parametrize(
    ("status", "worker", "words"),
    [
        (STOPPED, HERE, "its driver lives"),
        (RUNNING, HERE, "its driver lives"),
        (RUNNING, ELSEWHERE, "its driver on worker-7 has reported no end and cannot be seen from here"),
    ],
)
def test_r8_a_job_that_may_run_is_skipped_with_a_reason(
    tmp_path: Path, status: JobStatus, worker: Worker, words: str
) -> None:
    job = CrashedJob.run(tmp_path, status, worker)
    journal = Journal(job.storage, "orders")
    if status is RUNNING:
        journal.claim("shop~t4", worker, 1.0)
    before = job.storage.files("")
    for delete in (False, True):
        collected = collect_job(job, delete=delete)
        assert (collected.garbage, collected.skipped, collected.problem) == ((), words, None)
    assert job.storage.files("") == before


def test_a_job_whose_workers_may_still_run_is_skipped(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    journal = job.claimed(4)
    journal.write(ev.DeploymentPrepared(4, 1.0))
    journal.write(ev.StatusChanged(RUNNING, 1.0))
    assert collect_job(job, delete=True).skipped == "its JobMaster is gone, and its workers may still run"


def test_r8_an_attempt_without_a_folder_makes_no_older_attempt_garbage(tmp_path: Path) -> None:
    """The next attempt resumes from the folder before it. That folder's attempt may be alive and may commit there."""
    job = CrashedJob.run(tmp_path)
    for subtask in (HISTORY, V):
        job.storage.delete(f"{job.home(subtask)}/spark/0003-n3.json")
    collected = collect_job(job)
    assert {garbage.reason for garbage in collected.garbage} == {Reason.REQUEST, Reason.DEPLOYMENT, Reason.CHECKPOINT}
    assert [line.partition(":")[0] for line in collected.left] == ["history/0", "v/0"]


def test_r1_prepared_output_that_may_still_be_published_stays(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    collect_job(job, delete=True)
    assert job.storage.exists(f"{PARTITION}/{DATA}/0002-n2-1-kept/0.parquet")
    assert "0002-n2-1-kept" in job.staged()
    assert [record.batch_id for record in job.prepared(HISTORY).read_all()] == [1]


def test_leftovers_of_the_last_attempt_of_an_ended_subtask_are_garbage(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    log = job.log(HISTORY)
    log.end_of_data("finish")
    log.end_of_partition()
    assert f"{PARTITION}/{DATA}/0003-n3-1-lost" in paths(collect_job(job))
    assert not any("spark/0003" in path for path in paths(collect_job(job)))


@pytest.mark.parametrize("consumer_too", [False, True])
def test_r7_a_finished_subtask_keeps_only_output_that_is_still_read(tmp_path: Path, consumer_too: bool) -> None:
    """The driver died before it deleted the files. The last completed checkpoint covers the end of the subtask."""
    job = CrashedJob.run(tmp_path)
    for subtask in (HISTORY, V) if consumer_too else (HISTORY,):
        log = job.log(subtask)
        log.end_of_data("finish")
        log.end_of_partition()
    journal = job.claimed(4)
    [covered] = journal.state.checkpoints[2].subtasks.values()
    done = replace(covered, finished=True, finished_on_restore=True)
    subtasks = {HISTORY: done, V: done if consumer_too else covered}
    journal.write(ev.CheckpointCompleted(3, 3.0, 4.0, "checkpoint", subtasks, {}))
    journal.write(ev.StatusChanged(STOPPED, 7.0))
    collected = collect_job(job, delete=True)
    left = {path.partition("/")[0] for path, _ in job.storage.files(job.home(HISTORY))}
    assert left == ({"log"} if consumer_too else {"log", "partition"})
    assert collected.left == ()
    data = job.storage.list(f"{PARTITION}/{DATA}")
    # a prepared record that was still there at the first look names the second one
    assert data == ([] if consumer_too else ["0001-n1-0-n", "0002-n2-1-kept"])
    assert {
        garbage.reason for garbage in collected.garbage if "/spark/" in garbage.path and "history" in garbage.path
    } == {Reason.SUBTASK}


def test_in_batch_mode_a_superseded_attempt_is_garbage(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    for subtask in (HISTORY, V):
        job.storage.delete_tree(f"{job.home(subtask)}/spark")
        job.storage.delete_tree(f"{job.home(subtask)}/prepared")
    journal = job.claimed(4)
    sinks = {"lake": SinkDefinition("checkpoint", job.sink.definition())}
    journal.write(ev.PlanRecorded(GRAPH, {}, 6.0, JobDefinition("batch", {}, {}, sinks)))
    journal.write(ev.StatusChanged(JobStatus.RESTARTING, 7.0))
    garbage = paths(collect_job(job))
    assert f"{PARTITION}/{DATA}/0002-n2-1-lost" in garbage
    assert not {f"{PARTITION}/{DATA}/0001-n1-0-n", f"{PARTITION}/{DATA}/0003-n3-1-lost"} & garbage


def test_r5_staged_output_of_a_namesake_under_another_root_stays(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    shutil.copytree(
        books(job.lake) / "orders/lake/staging/0002-n2-1-lost", books(job.lake) / "orders/lake/staging/0002-zz-1-n"
    )
    collect_job(job, delete=True)
    assert "0002-zz-1-n" in job.staged()


def test_removing_an_operator_deletes_all_but_its_log(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    journal = job.claimed(4)
    journal.write(ev.PlanRecorded(JobGraph(GRAPH.vertices[1:], ()), {}, 6.0, job.definition()))
    journal.write(ev.StatusChanged(STOPPED, 7.0))
    job.storage.create(late_path(frozen_path("orders", "history")), b"{}")
    deleted = collect_job(job, delete=True)
    assert {garbage.reason for garbage in deleted.garbage if "history/0" in garbage.path} == {Reason.OPERATOR}
    lists = late_path(frozen_path("orders", "history")), frozen_path("orders", "history")
    assert tuple(garbage.path for garbage in deleted.garbage if garbage.reason is Reason.FROZEN) == lists
    left = {path for path, _ in job.storage.files("orders/vertices/history/0")}
    assert left == {f"log/0000000{n}.json" for n in range(len(left))}
    # if the operator returns in a later epoch, its files have other names
    assert not any("v/0/spark/0003" in garbage.path for garbage in deleted.garbage)


def test_a_restart_from_scratch_makes_old_lists_and_subtasks_garbage(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    journal = job.claimed(4)
    journal.write(ev.Restored(0, {}, 6.0, from_scratch=True))
    journal.write(ev.PlanRecorded(JobGraph(GRAPH.vertices[:1], ()), {}, 6.0, job.definition()))
    job.storage.create(frozen_path("orders", "history", 4), b"{}")
    journal.write(ev.StatusChanged(JobStatus.FAILED, 7.0))
    collected = collect_job(job)
    assert [garbage.path for garbage in collected.garbage if garbage.reason is Reason.FROZEN] == [
        frozen_path("orders", "history")
    ]
    assert {garbage.reason for garbage in collected.garbage if "/v/0/" in garbage.path} == {Reason.OPERATOR}
    assert {garbage.reason for garbage in collected.garbage if "/history/0/spark" in garbage.path} == {Reason.ATTEMPT}


# ---- jobs that have ended


def test_garbage_of_a_finished_job_is_what_its_clean_up_left(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path)
    output = job.output()
    collected = collect_job(job)
    wanted = {"orders/requests", "0001-a1-3-n3"}
    wanted |= {f"orders/vertices/history/0/{part}" for part in ("partition", "spark")}
    assert {garbage.path for garbage in collected.garbage} == wanted
    assert collect_job(job, delete=True).garbage == collected.garbage
    assert (job.staged(), job.output()) == ([], output)
    assert {path.partition("/")[0] for path in job.files()} == {"checkpoints", "frozen", "vertices"}
    assert collect_job(job).garbage == ()


def test_r16_a_job_with_unreleased_checkpoints_is_skipped(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path, released=1)
    collected = collect_job(job, delete=True)
    assert collected.garbage == ()
    assert collected.skipped is not None
    assert "checkpoint 2, which is not released" in collected.skipped


def test_files_written_after_a_deletion_are_garbage(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path)
    job.client.delete()
    assert collect_job(job).garbage == ()
    job.storage.create("orders/vertices/v/0/spark/0001-a1/offsets/9", b"1234")
    collected = collect_job(job, delete=True)
    assert [(garbage.path, garbage.reason, garbage.bytes) for garbage in collected.garbage] == [
        ("orders/vertices", Reason.DELETED, 4)
    ]
    assert job.parts() == ["journal"]
    assert job.client.state().status is JobStatus.DELETED


def test_a_job_with_an_interrupted_deletion_is_skipped(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path)
    deleting = Journal(job.storage, "orders")
    deleting.claim("t~delete", Worker(), 9.0, releases_only=True)
    deleting.write(ev.DeletionBegun(FINISHED, 9.0))
    collected = collect_job(job, delete=True)
    delete = f"ckpt delete orders --root {tmp_path}/root"
    assert (collected.garbage, collected.skipped) == ((), f"its deletion was interrupted: `{delete}` completes it")


def test_staged_output_of_an_unknown_sink_is_left_and_reported(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    journal = job.claimed(4)
    sinks = {"lake": SinkDefinition("checkpoint", {"type": "shop.Table"})}
    journal.write(ev.PlanRecorded(GRAPH, {}, 6.0, JobDefinition("streaming", {}, {}, sinks)))
    journal.write(ev.StatusChanged(STOPPED, 7.0))
    staged = job.staged()
    deleted = collect_job(job, delete=True)
    assert deleted.left == ("sink lake: its staged output is unknown",)
    assert job.staged() == staged


# ---- files that cannot be read


def test_a_damaged_journal_is_reported_and_nothing_is_deleted(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    sorted((job.root / "orders/journal").glob("*.json"))[-1].write_text("{")
    before = job.files()
    for delete in (False, True):
        collected = collect_job(job, delete=delete)
        assert (collected.garbage, collected.problem is not None, job.files()) == ((), True, before)


@pytest.mark.parametrize("subtask", ["history", "v"])
def test_a_damaged_log_keeps_the_garbage_of_all_subtasks(tmp_path: Path, subtask: str) -> None:
    job = CrashedJob.run(tmp_path)
    (job.root / subtask_log_path("orders", subtask, 0) / "00000001.json").write_text("{")
    before = job.files()
    report = collect_garbage(job.root, delete=True)
    assert list(report.problems) == ["orders"]
    assert (report.files, job.files()) == (0, before)


def test_a_lost_log_that_a_checkpoint_covers_keeps_all_garbage(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    shutil.rmtree(job.root / subtask_log_path("orders", "v", 0))
    before = job.files()
    collected = collect_job(job, delete=True)
    assert collected.problem is not None
    assert "ends before" in collected.problem
    assert job.files() == before


def test_an_unreadable_prepared_record_stops_the_collection(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    (job.root / "orders/vertices/v/0/prepared/0002-n2.json").write_text("{")
    before = job.files()
    assert collect_job(job, delete=True).problem is not None
    assert job.files() == before


def test_an_unlistable_lake_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    beside = books(job.lake)
    beside.rename(tmp_path / "away")
    beside.symlink_to(beside)
    before = job.files()
    assert collect_job(job, delete=True).problem is not None
    assert job.files() == before


def test_a_damaged_job_does_not_stop_the_collection_of_others(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    Journal(job.storage, "visits").claim("t1", GONE, 1.0)
    (job.root / "visits/journal/00000000.json").write_text("{")
    report = collect_garbage(job.root, delete=True)
    assert ([job_garbage.job_id for job_garbage in report.jobs], list(report.problems)) == (
        ["orders", "visits"],
        ["visits"],
    )
    assert paths(report.jobs[0]) == LOST


# ---- the root


def test_strange_files_in_a_root_are_reported_and_left(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    for path in ("copy/vertices/v/0/log/00000000.json", "photos/1.jpg", "notes.txt", ".hidden", "a b/c"):
        (job.root / path).parent.mkdir(parents=True, exist_ok=True)
        (job.root / path).write_text("mine")
    report = collect_garbage(job.root, delete=True)
    strange = {entry.name: entry.what for entry in report.strange}
    assert sorted(strange) == ["a b", "copy", "notes.txt", "photos"]
    assert "no journal" in strange["copy"]
    assert {strange[name] for name in ("a b", "notes.txt", "photos")} == {"it is no job of this package"}
    assert all((job.root / path).exists() for path in ("copy/vertices", "photos/1.jpg", "notes.txt", "a b/c"))


def test_abandoned_temporary_files_are_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = CrashedJob.run(tmp_path)
    collect_job(job, delete=True)
    left = [job.root / f"orders/journal/.tmp-{'0' * 16}", job.root / f".probe-{'1' * 16}"]
    for path in left:
        path.write_bytes(b"12")
    assert collect_garbage(job.root, delete=True).files == 0
    monkeypatch.setattr(garbage_search, "LEFT_BEHIND", 0.0)
    monkeypatch.setattr("airflow_provider_ckpt.client.garbage_collection.LEFT_BEHIND", 0.0)
    reported = collect_garbage(job.root)
    assert (reported.files, reported.bytes, [path.exists() for path in left]) == (2, 4, [True, True])
    assert collect_garbage(job.root, delete=True).files == 2
    assert [path.exists() for path in left] == [False, False]


def test_a_missing_root_and_an_unknown_job_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NoRootError):
        collect_garbage(tmp_path / "root")
    job = CrashedJob.run(tmp_path)
    with pytest.raises(NoSuchJobError, match="visits"):
        collect_garbage(job.root, "visits")


def test_garbage_in_an_object_store_is_the_same(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    memory = open_storage(f"memory://{uuid.uuid4().hex}")
    for path, _ in job.storage.files(""):
        memory.create(path, job.storage.read(path))
    [deleted] = collect_garbage(memory, delete=True).jobs
    assert (paths(deleted), collect_garbage(memory).files) == (LOST, 0)
    collect_job(job, delete=True)
    assert memory.files("") == job.storage.files("")
    memory.delete_tree("")


def test_a_report_sums_the_files_and_bytes(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    report: GarbageReport = collect_garbage(job.root)
    before, staged = sum(size for _, size in job.storage.files("")), len(job.staged())
    done = collect_garbage(job.root, delete=True)
    assert (done.files, done.bytes) == (report.files, report.bytes)
    in_lake = staged - len(job.staged())
    assert before - sum(size for _, size in job.storage.files("")) == report.bytes - 2 * in_lake
    assert JobClient(job.root, "orders").state().status is STOPPED


def test_r5_a_dry_run_copy_of_an_ended_attempt_is_garbage(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path, RUNNING)
    for name in ("0001-n1-1", "0002-n2-12", "0003-n3-2", "notes"):
        job.storage.create(f"orders/vertices/v/0/trial/{name}/offsets/0", b"copied")
    expected = {f"orders/vertices/v/0/trial/{name}" for name in ("0001-n1-1", "0002-n2-12")}
    assert {path for path in paths(collect_job(job)) if "/trial/" in path} == expected
    collect_job(job, delete=True)
    assert sorted(job.storage.list("orders/vertices/v/0/trial")) == ["0003-n3-2", "notes"]


def test_deleting_garbage_needs_a_boolean(tmp_path: Path) -> None:
    with pytest.raises(BadOptionError, match="delete='false'"):
        collect_garbage(str(tmp_path), delete="false")  # type: ignore[arg-type]
