"""Reports of late files: each file once, however many there are and however often the job runs. No Spark runs here."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.journal.events import LateFilesFound, PlanRecorded, Restored, SourceFrozen
from airflow_provider_ckpt.journal.kinds.sources import REMEMBERED
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition, SourceDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.spark.query.sources import late_files
from airflow_provider_ckpt.spark.query.sources.frozen_files import FrozenFiles
from airflow_provider_ckpt.spark.query.sources.known_late import KnownLate, LateFilesSeen, unchecked_sources
from airflow_provider_ckpt.spark.query.sources.late_files import NAMED, name_late_files
from airflow_provider_ckpt.storage.envelope import encode_document
from airflow_provider_ckpt.storage.errors import NewerFormatError, StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage

FROZEN = FrozenFiles("history", ("file:/in/0",))
PATH = "job/frozen/late/history.json"
GOLDEN = Path(__file__).parents[1] / "golden" / "late-files-v1.json"


class Runs:
    """Runs of a job with a source ``history``, whose folder gets files."""

    def __init__(self, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.storage, self.state, self.there = storage, JobState("job"), ["file:/in/0"]
        SourceFrozen("history", "frozen/history.json", 1, 1.0).apply(self.state)
        monkeypatch.setattr(late_files, "list_files", lambda spark, reads: tuple(sorted(self.there)))

    def ends(self, read: Iterable[str] = (), storage: Storage | None = None) -> list[LateFilesFound]:
        """End a run that has read ``read``; return its events about late files."""
        told: list[LateFilesFound] = []

        def tell(event: LateFilesFound) -> None:
            event.apply(self.state)
            told.append(event)

        reads: Any = {"history": None}
        given = self.storage if storage is None else storage
        spark: Any = None
        name_late_files(spark, given, self.state, reads, {"history": FROZEN}, set(read), tell, {})
        return told

    def come(self, *names: object) -> None:
        self.there += [f"file:/in/{name}" for name in names]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(open_storage(f"memory://{tmp_path}"), monkeypatch)


def paths(told: list[LateFilesFound]) -> list[tuple[str, ...]]:
    return [event.paths for event in told]


def test_each_is_told_of_once_with_whether_it_was_read(runs: Runs) -> None:
    assert runs.ends() == []
    runs.come("a", "b")
    assert [(one.paths, one.read, one.total) for one in runs.ends(["in/b"])] == [
        (("file:/in/b",), True, 1),
        (("file:/in/a",), False, 1),
    ]
    assert runs.ends(["in/b"]) == []
    runs.come("c")
    assert paths(runs.ends()) == [("file:/in/c",)]
    runs.state.late_files = []  # the list in the journal is only for display
    assert runs.ends() == []


def test_the_state_of_a_job_does_not_grow_with_them(runs: Runs) -> None:
    for number in range(REMEMBERED + 10):
        runs.come(*(f"{number}-{at}" for at in range(NAMED + 5)))
        (told,) = runs.ends()
        assert (len(told.paths), told.total) == (NAMED, NAMED + 5)
    assert len(runs.state.late_files) == REMEMBERED
    assert runs.ends() == []


def test_a_source_that_is_begun_anew_is_told_of_what_comes_late_to_it(runs: Runs) -> None:
    runs.come("a")
    runs.ends()
    Restored(0, {}, time.time(), anew=True).apply(runs.state)
    SourceFrozen("history", "frozen/history.0002.json", 1, time.time()).apply(runs.state)
    assert paths(runs.ends()) == [("file:/in/a",)]
    assert runs.ends() == []


def test_of_a_folder_that_files_pass_through_what_is_there_is_kept(runs: Runs) -> None:
    for number in range(30):
        runs.there = runs.there[:1]
        runs.come(*(f"{number}-{at}" for at in range(10)))
        assert sum(one.total for one in runs.ends()) == 10
    kept = KnownLate(runs.storage, "job/frozen/history.json", "history")
    assert len(kept.read().files) == 10
    runs.there = runs.there[:1]
    assert runs.ends() == []
    assert kept.read().files == frozenset()


def test_whether_anybody_has_looked_when_the_job_finished_is_told(runs: Runs) -> None:
    sources = {"history": SourceDefinition(True, paths=("/in",), format="json")}
    definition = JobDefinition("streaming", sources, {}, {})
    PlanRecorded(JobGraph((), ()), {}, 1.0, definition).apply(runs.state)
    runs.state.epoch = 2
    assert unchecked_sources(runs.storage, runs.state) == ["history"]
    runs.ends()
    assert unchecked_sources(runs.storage, runs.state) == []
    runs.state.epoch = 3
    assert unchecked_sources(runs.storage, runs.state) == ["history"]


def test_a_list_that_cannot_be_read_has_them_told_of_again(runs: Runs, caplog: pytest.LogCaptureFixture) -> None:
    runs.come("a")
    runs.ends()
    runs.state.late_files = []
    runs.storage.replace(PATH, b"{")
    with caplog.at_level(logging.WARNING):
        assert paths(runs.ends()) == [("file:/in/a",)]
    assert PATH in caplog.text
    runs.state.late_files = []
    assert runs.ends() == []


class NoAnswer(WrappedStorage):
    def read(self, path: str) -> bytes:
        raise StorageTransientError(verb="read", uri=path, reason="no answer")

    def _wrap(self, inner: Storage) -> NoAnswer:
        return NoAnswer(inner)


def test_an_overtaken_driver_that_looks_late_changes_nothing(runs: Runs) -> None:
    runs.come("a")
    kept = KnownLate(runs.storage, "job/frozen/history.json", "history")
    kept.write(5, {"file:/in/a", "file:/in/b"})
    runs.state.epoch = 4
    assert runs.ends() == []
    assert kept.read() == LateFilesSeen(5, frozenset({"file:/in/a", "file:/in/b"}))


def test_no_answer_is_no_empty_list(runs: Runs) -> None:
    runs.come("a")
    runs.ends()
    runs.state.late_files = []
    with pytest.raises(StorageTransientError):
        runs.ends(storage=NoAnswer(runs.storage))


def test_a_list_of_a_later_release_is_refused(runs: Runs) -> None:
    runs.come("a")
    runs.storage.create(PATH, encode_document("late-files", 2, uid="history", files=[]))
    with pytest.raises(NewerFormatError):
        runs.ends()


def test_it_reads_as_it_was_written_by_the_first_release(runs: Runs) -> None:
    runs.storage.create(PATH, GOLDEN.read_bytes())
    kept = KnownLate(runs.storage, "job/frozen/history.json", "history")
    assert kept.read() == LateFilesSeen(3, frozenset({"file:/in/a", "file:/in/ü b"}))
    kept.write(3, {"file:/in/ü b", "file:/in/a"})
    assert runs.storage.read(PATH) == GOLDEN.read_bytes()
