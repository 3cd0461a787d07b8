"""Several jobs and one folder. Each mode of a FileSink treats earlier output of other jobs in its own way."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from airflow_provider_ckpt.errors import CkptError, InvalidInputError
from airflow_provider_ckpt.sinks.errors import (
    GarbageLeftError,
    InvalidSinkError,
    OutputSupersededError,
    ReleaseRefusedError,
    TargetRefusedError,
)
from airflow_provider_ckpt.sinks.file import file_folders
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from airflow_provider_ckpt.sinks.file.occupancy import Mode
from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, When, WrappedStorage
from tests.sinks.lake import Lake
from tests.spark.faults import HookedStorage, die, once_before_verb
from tests.support.refusing_storage import RefusingStorage


@pytest.fixture
def lake() -> Lake:
    return Lake(f"memory://{uuid.uuid4().hex}")


# ---- errorifexists


@pytest.mark.parametrize("theirs", ["errorifexists", "append", "overwrite"])
def test_a_new_job_is_refused_if_another_has_released_to_the_folder(lake: Lake, theirs: Mode) -> None:
    lake.release("monday", "m", mode=theirs)
    before = lake.paths()
    with pytest.raises(TargetRefusedError, match="cannot write to") as refused:
        lake.new("tuesday", "errorifexists")
    assert isinstance(refused.value, InvalidInputError)
    for word in ("monday", "lake", "overwrite", "append", "folder of its own"):
        assert word in str(refused.value)
    assert lake.paths() == before


@pytest.mark.parametrize("name", ["part-00000-abc.parquet", "day=1/part-00000-abc.parquet", "notes.txt"])
def test_a_folder_with_foreign_data_is_refused(lake: Lake, name: str) -> None:
    lake.storage.create(name, b"theirs")
    for mode in ("errorifexists", "overwrite"):
        with pytest.raises(TargetRefusedError, match=name):
            lake.bind("tuesday", mode).check_target()
    lake.release("tuesday", "t", mode="append")
    assert lake.listed() == ["t", "theirs"]


@pytest.mark.parametrize("name", ["part-00000-abc.c000.json", "day=1.parquet/x.ORC", "x.csv.gz"])
def test_a_folder_of_another_format_is_refused(lake: Lake, name: str) -> None:
    lake.storage.create(name, b"theirs")
    with pytest.raises(
        InvalidSinkError, match=r"format='parquet' is not that of .*, and a folder is read in one format"
    ):
        lake.bind("tuesday", "append").check_target()
    assert lake.paths() == [name]


@pytest.mark.parametrize(
    "name", ["_ckpt/old/lake/x.csv", "journal/0.json", "a.snappy.parquet", "b.gz.parquet", "b.json/x.txt", "csv"]
)
def test_hidden_files_and_files_of_the_same_format_are_accepted(lake: Lake, name: str) -> None:
    lake.storage.create(name, b"theirs")
    lake.bind("tuesday", "append").check_target()


def test_a_folder_with_only_hidden_files_counts_as_empty(lake: Lake) -> None:
    for name in ("_SUCCESS", ".hidden", "_temporary/0/part-0"):
        lake.storage.create(name, b"")
    lake.release("monday", "m", mode="errorifexists")
    assert lake.named() == lake.listed() == ["m"]


def test_a_job_resumes_in_its_own_folder(lake: Lake) -> None:
    lake.release("monday", "m", mode="errorifexists")
    again = lake.bind("monday", "errorifexists")
    again.prepare()
    again.release([lake.staged("monday", 2, "n", since=1)], 2)
    assert lake.named() == lake.listed() == ["m", "n"]


@pytest.mark.parametrize("modes", [("errorifexists", "errorifexists"), ("overwrite", "errorifexists")])
def test_the_second_of_two_jobs_in_an_empty_folder_is_refused(lake: Lake, modes: tuple[Mode, Mode]) -> None:
    monday, tuesday = lake.new("monday", modes[0]), lake.new("tuesday", modes[1])
    monday.release([lake.staged("monday", 1, "m")], 1)
    handle = lake.staged("tuesday", 1, "t")
    with pytest.raises(ReleaseRefusedError, match="monday"):
        tuesday.release([handle], 1)
    assert lake.named() == lake.listed() == ["m"]
    lake.bind("tuesday", "append").release([handle], 1)
    assert lake.named() == lake.listed() == ["m", "t"]


def test_one_of_two_concurrent_first_releases_is_refused(lake: Lake) -> None:
    """Each has checked the folder and found no other job."""
    monday = lake.new("monday", "errorifexists")
    hook = once_before_verb("create", "~owners", lambda: monday.release([lake.staged("monday", 1, "m")], 1))
    tuesday = lake.new("tuesday", "errorifexists", storage=HookedStorage(lake.parent, hook))
    with pytest.raises(ReleaseRefusedError, match="Nothing was released; the rows stay"):
        tuesday.release([lake.staged("tuesday", 1, "t")], 1)
    assert lake.named() == lake.listed() == ["m"]


def test_foreign_data_before_the_first_release_is_refused(lake: Lake) -> None:
    for mode in ("errorifexists", "overwrite"):
        monday = lake.new("monday", mode)
        lake.storage.create("theirs.txt", b"theirs")
        with pytest.raises(ReleaseRefusedError, match=r"theirs\.txt"):
            monday.release([lake.staged("monday", 1, "m")], 1)
        assert lake.listed() == ["theirs"]
        lake.storage.delete_tree("")
        lake.books.delete_tree("")


# ---- overwrite


@pytest.mark.parametrize("theirs", ["errorifexists", "append", "overwrite"])
def test_only_the_first_release_of_an_overwriting_job_replaces(lake: Lake, theirs: Mode) -> None:
    lake.release("monday", "m1", "m2", mode=theirs)
    lake.release("monday-late", "m3", mode="append")
    tuesday = lake.new("tuesday")
    assert lake.named() == lake.listed() == ["m1", "m2", "m3"]
    tuesday.release([lake.staged("tuesday", 1, "t1")], 1)
    assert lake.named() == lake.listed() == ["t1"]
    assert lake.named("monday") == []
    tuesday.release([lake.staged("tuesday", 2, "t2", since=1)], 2)
    assert lake.named() == lake.listed() == ["t1", "t2"]


def test_a_resumed_job_does_not_replace_its_own_rows(lake: Lake) -> None:
    first, second = lake.new("monday", uid="a"), lake.new("monday", uid="b")
    first.release([lake.staged("monday", 1, "a1", uid="a")], 1)
    second.release([lake.staged("monday", 1, "b1", uid="b")], 1)
    for number in (2, 3):
        again = lake.bind("monday", uid="a")
        again.prepare()
        again.release([lake.staged("monday", number, f"a{number}", uid="a", since=number - 1)], number)
        again.collect_garbage(set(), set())
    assert lake.named() == lake.listed() == ["a1", "a2", "a3", "b1"]


def test_an_empty_overwriting_job_replaces_rows_with_one_manifest(lake: Lake) -> None:
    lake.release("monday", "m")
    again = lake.new("monday-again")
    for checkpoint in (1, 2, 3):
        assert again.release([], checkpoint) == {"files": 0, "rows": 0, "bytes": 0}
        assert lake.named() == lake.listed() == []
    (manifest,) = read_manifests(lake.uri)
    assert (manifest.job_id, manifest.checkpoint, manifest.rows) == ("monday-again", 1, 0)
    again.release([lake.staged("monday-again", 1, "late", since=1)], 4)
    assert lake.named() == lake.listed() == ["late"]


def test_an_empty_release_that_replaces_nothing_writes_no_manifest(lake: Lake) -> None:
    lake.release("monday")
    assert read_manifests(lake.uri) == []
    lake.release("tuesday", "t", mode="errorifexists")


def test_a_replaced_job_cannot_release(lake: Lake) -> None:
    monday = lake.release("monday", "m1", mode="append")
    lake.release("tuesday", "t1")
    handle = lake.staged("monday", 2, "m2", since=1)
    for process in (monday, lake.bind("monday", "append"), lake.bind("monday", "overwrite")):
        with pytest.raises(OutputSupersededError, match="tuesday"):
            process.release([handle], 2)
        assert lake.named() == lake.listed() == ["t1"]
        with pytest.raises(OutputSupersededError, match="tuesday"):
            process.prepare()


def test_the_later_of_two_overwriting_jobs_wins(lake: Lake) -> None:
    monday, tuesday = lake.new("monday"), lake.new("tuesday")
    monday.release([lake.staged("monday", 1, "m1")], 1)
    tuesday.release([lake.staged("tuesday", 1, "t1")], 1)
    assert lake.named() == lake.listed() == ["t1"]
    with pytest.raises(OutputSupersededError, match="If its rows are the wanted ones, run it"):
        monday.release([lake.staged("monday", 2, "m2", since=1)], 2)
    tuesday.release([lake.staged("tuesday", 2, "t2", since=1)], 2)
    assert lake.named() == lake.listed() == ["t1", "t2"]


def test_a_late_release_of_a_hung_job_does_not_replace_its_successor(lake: Lake) -> None:
    """Monday hangs before its first release. It is restarted as another job, and then resumes."""
    hanging, anew = lake.new("monday"), lake.new("monday~g1")
    anew.release([lake.staged("monday~g1", 1, "new")], 1)
    with pytest.raises(OutputSupersededError, match="monday~g1"):
        hanging.release([lake.staged("monday", 1, "old")], 1)
    assert lake.named() == lake.listed() == ["new"]
    anew.release([lake.staged("monday~g1", 2, "newer", since=1)], 2)
    assert lake.named() == lake.listed() == ["new", "newer"]


def test_one_of_two_concurrent_overwriting_releases_wins(lake: Lake) -> None:
    monday = lake.new("monday")
    hook = once_before_verb("create", "~owners/00000002", lambda: monday.release([lake.staged("monday", 1, "m")], 1))
    tuesday = lake.new("tuesday", storage=HookedStorage(lake.parent, hook))
    tuesday.release([lake.staged("tuesday", 1, "t")], 1)
    assert lake.named() == lake.listed() == ["t"]


def test_r9_several_processes_of_an_overwriting_job_release_once(lake: Lake) -> None:
    lake.release("monday", "m")
    lake.new("tuesday")
    handle = lake.staged("tuesday", 1, "t1", "t2")
    sinks = [lake.bind("tuesday") for _ in range(4)]
    start, failures = threading.Barrier(len(sinks)), []

    def run(number: int) -> None:
        start.wait()
        try:
            sinks[number].release([handle], 1)
        except CkptError as error:
            if not error.retryable:
                failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(sinks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert lake.named() == lake.listed() == ["t1", "t2"]
    assert len(read_manifests(lake.uri)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", ["again", "higher", "garbage"])
def test_a_crashed_replacement_is_completed_and_manifests_switch_atomically(how: str, when: When) -> None:
    old, new = ["m1", "m2", "m3"], ["t1", "t2"]
    for at in range(1, 60):
        lake = Lake(f"memory://{uuid.uuid4().hex}")
        monday = lake.release("monday", "m1", "m2")
        monday.release([lake.staged("monday", 2, "m3", since=1)], 2)
        handle = lake.staged("tuesday", 1, *new)
        crashed = False
        try:
            dying = lake.bind("tuesday", storage=CrashingStorage(lake.parent, at=at, when=when))
            dying.prepare()
            dying.release([handle], 1)
        except SimulatedCrash:
            crashed = True
        assert lake.named() in (old, new)  # every named file exists, too
        if how == "garbage" and read_manifests(lake.uri, "tuesday"):
            lake.bind("tuesday").collect_garbage({handle["id"]}, set())
            assert lake.named() == lake.listed() == new
        again = lake.bind("tuesday")
        again.prepare()
        assert not read_manifests(lake.uri, "tuesday") or lake.listed() == new
        if how == "higher":
            again.release([handle, lake.staged("tuesday", 2, "t3")], 2)
            assert lake.named() == lake.listed() == [*new, "t3"]
        else:
            again.release([handle], 1)
            assert lake.named() == lake.listed() == new
        assert not [path for path in lake.paths() if "tuesday" in path and "staging" in path]
        if not crashed:
            assert at > 8, "replacing has more steps than that"
            return
    raise AssertionError("replacing has no end")


def test_an_undeletable_staged_folder_does_not_keep_replaced_files(lake: Lake) -> None:
    """A releaser of the replaced job may move files late. The successor's next process deletes them nevertheless."""
    lake.release("monday", "m1")
    ((moved, _),) = lake.storage.files("")
    lake.release("tuesday", "t1")
    lake.storage.create(moved, b"late")
    left = lake.staged("tuesday", 7, "t7")["id"]
    other = lake.staged("tuesday", 8, "t8")["id"]
    sink = lake.bind("tuesday", storage=RefusingStorage(lake.parent, lambda path: path.endswith(left)))
    with pytest.raises(GarbageLeftError, match=left) as raised:
        sink.collect_garbage(set(), set())
    assert (raised.value.data["left"], raised.value.data["deleted"]) == ([left], [other])
    assert set(sink.staged()) == {left}
    assert lake.named() == lake.listed() == ["t1"]


def test_a_crashed_replacing_job_completes_after_its_turn_is_recorded(lake: Lake) -> None:
    """Tuesday died between its turn and its manifest. Monday's rows stay, and monday can release nothing further."""
    monday = lake.release("monday", "m1")
    handle = lake.staged("tuesday", 1, "t1")
    lake.new("tuesday")
    hook = once_before_verb("create", "tuesday/lake/manifests", die)
    with pytest.raises(SimulatedCrash):
        lake.bind("tuesday", storage=HookedStorage(lake.parent, hook)).release([handle], 1)
    with pytest.raises(OutputSupersededError, match="If its rows are the wanted ones, run it"):
        monday.release([lake.staged("monday", 2, "m2", since=1)], 2)
    lake.bind("tuesday").collect_garbage({handle["id"]}, set())
    lake.bind("tuesday").prepare()
    assert lake.named() == ["m1"]
    with pytest.raises(TargetRefusedError, match="tuesday"):
        lake.new("wednesday", "errorifexists")
    lake.bind("tuesday").release([handle], 1)
    assert lake.named() == lake.listed() == ["t1"]


@pytest.mark.parametrize("mode", ["errorifexists", "overwrite"])
def test_a_job_that_crashed_after_its_turn_is_replaced_by_a_later_one(lake: Lake, mode: Mode) -> None:
    handle = lake.staged("tuesday", 1, "t1")
    lake.new("tuesday", mode)
    hook = once_before_verb("create", "tuesday/lake/manifests", die)
    with pytest.raises(SimulatedCrash):
        lake.bind("tuesday", mode, storage=HookedStorage(lake.parent, hook)).release([handle], 1)
    lake.release("wednesday", "w1")
    with pytest.raises(OutputSupersededError, match="wednesday"):
        lake.bind("tuesday", mode).release([handle], 1)
    assert lake.named() == lake.listed() == ["w1"]


@pytest.mark.parametrize("mode", ["errorifexists", "overwrite"])
def test_a_retried_replacement_does_not_replace_later_jobs(lake: Lake, mode: Mode) -> None:
    """Tuesday takes its turn and dies while it moves its files. Wednesday then appends, and must not be replaced."""
    handle = lake.staged("tuesday", 1, "t1", "t2")
    lake.new("tuesday", mode)
    dying = lake.bind("tuesday", mode, storage=HookedStorage(lake.parent, once_before_verb("copy", "00001.txt", die)))
    with pytest.raises(SimulatedCrash):
        dying.release([handle], 1)
    wednesday = lake.release("wednesday", "w1", mode="append")
    lake.bind("tuesday", mode).release([handle], 1)
    assert lake.named() == lake.listed() == ["t1", "t2", "w1"]
    wednesday.release([lake.staged("wednesday", 2, "w2", since=1)], 2)
    assert lake.named() == lake.listed() == ["t1", "t2", "w1", "w2"]


@pytest.mark.parametrize(
    "paused", [("copy", "00001.txt"), ("delete", "staging"), ("create", "monday/lake/manifests/00000001")]
)
def test_a_job_replaced_during_its_release_leaves_no_rows(lake: Lake, paused: tuple[str, str]) -> None:
    """Monday is replaced at three moments: while it moves its files, before its check, and before its entry."""
    lake.release("monday", "m1", mode="append")
    hook = once_before_verb(*paused, lambda: lake.release("tuesday", "t1"))
    monday = lake.bind("monday", "append", storage=HookedStorage(lake.parent, hook))
    handle = lake.staged("monday", 2, "m2", "m3", since=1)
    try:
        monday.release([handle], 2)
    except OutputSupersededError:
        assert paused[0] != "create"
    assert lake.named() == lake.listed() == ["t1"]


def test_a_replacement_deletes_moved_files_without_a_manifest(lake: Lake) -> None:
    lake.release("monday", "m1", mode="append")
    dying = lake.bind("monday", "append", storage=CrashingStorage(lake.parent, at=3, when="after"))
    with pytest.raises(SimulatedCrash):
        dying.release([lake.staged("monday", 2, "m2", "m3", since=1)], 2)
    assert "m2" in lake.listed()
    lake.release("tuesday", "t1")
    assert lake.listed() == ["t1"]


def test_only_files_of_replaced_sinks_are_deleted(lake: Lake) -> None:
    """Kept: names that begin like a replaced job's name, jobs that append afterwards, and files of no job."""
    lake.release("a", "old", uid="b")
    lake.release("new", "new")
    lake.release("a-b", "added", mode="append", uid="c")
    lake.release("a-b-00000001-n1-00000", "added too", mode="append", uid="b")
    for name in ("part-a-b-notes.txt", "part-a-b-00000001-n1-00000.txt-copy", "part-a-b-00000001-n1-00000.old-1.txt"):
        lake.storage.create(name, b"a stranger's")
    lake.bind("new").collect_garbage(set(), set())
    assert lake.listed() == ["a stranger's"] * 3 + ["added", "added too", "new"]


@pytest.mark.parametrize("is_there", [True, False], ids=["a job that has staged", "a job that nobody has seen yet"])
def test_a_manifest_reader_sees_either_the_old_or_the_new_rows(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    class Switching(WrappedStorage):
        """Storage that runs ``switch``, a release by tuesday, just before the reader's ``at``-th read."""

        def __init__(self, inner: Storage, at: Iterator[int], switch: Callable[[], object]) -> None:
            super().__init__(inner)
            self.at, self.switch = at, switch

        def look(self) -> None:
            if next(self.at, 0) == 1:
                self.switch()

        def _wrap(self, inner: Storage) -> Switching:
            return Switching(inner, self.at, self.switch)

        def read(self, path: str) -> bytes:
            self.look()
            return super().read(path)

        def list(self, path: str) -> list[str]:
            self.look()
            return super().list(path)

    seen = set()
    for at in range(1, 40):
        lake = Lake(f"memory://{uuid.uuid4().hex}")
        lake.release("monday", "m")
        lake.release("also", "a", mode="append")
        tuesday = lake.new("tuesday")
        staged = [lake.staged("tuesday", 1, "t")] if is_there else []

        def switch() -> None:
            tuesday.release(staged or [lake.staged("tuesday", 1, "t")], 1)  # noqa: B023

        left = iter(range(at, 0, -1))
        storage = Switching(lake.parent, left, switch)
        monkeypatch.setattr(file_folders, "open_storage", lambda *_: storage)  # noqa: B023
        entries = [(manifest.job_id, manifest.rows) for manifest in read_manifests(lake.uri)]
        monkeypatch.undo()
        assert entries in ([("also", 1), ("monday", 1)], [("tuesday", 1)])
        seen.add(len(entries))
        if next(left, 0):
            assert seen == {1, 2}
            return
    raise AssertionError("reading has no end")


def test_an_appending_release_reads_the_ownership_log_twice(lake: Lake) -> None:
    class Counting(WrappedStorage):
        turns: ClassVar[list[str]] = []

        def read(self, path: str) -> bytes:
            self.turns.extend([path] if "~owners" in path else [])
            return super().read(path)

        def files(self, path: str) -> Sizes:
            assert path or "/staging/" in self.uri, "the folder was listed"
            return super().files(path)

        def _wrap(self, inner: Storage) -> Counting:
            return Counting(inner)

    storage = Counting(lake.parent)
    sink = lake.bind("monday", "append", storage=storage)
    for number in range(1, 6):
        sink.release([lake.staged("monday", number, f"m{number}", since=number - 1)], number)
    assert len(storage.turns) == 2 * 5 + 1  # one more at the first release, which checks for output to sweep
