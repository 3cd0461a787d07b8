"""Reports of late files: each file is reported once, over all runs of the job. No Spark runs here."""

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

    def end_run(self, read: Iterable[str] = (), storage: Storage | None = None) -> list[LateFilesFound]:
        """End a run that has read ``read``; return its events about late files."""
        events: list[LateFilesFound] = []

        def tell(event: LateFilesFound) -> None:
            event.apply(self.state)
            events.append(event)

        reads: Any = {"history": None}
        given = self.storage if storage is None else storage
        spark: Any = None
        name_late_files(spark, given, self.state, reads, {"history": FROZEN}, set(read), tell, {})
        return events

    def add_files(self, *names: object) -> None:
        self.there += [f"file:/in/{name}" for name in names]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(open_storage(f"memory://{tmp_path}"), monkeypatch)


def paths(events: list[LateFilesFound]) -> list[tuple[str, ...]]:
    return [event.paths for event in events]


def test_each_late_file_is_reported_once_with_its_fate(runs: Runs) -> None:
    assert runs.end_run() == []
    runs.add_files("a", "b")
    assert [(event.paths, event.read, event.total) for event in runs.end_run(["in/b"])] == [
        (("file:/in/b",), True, 1),
        (("file:/in/a",), False, 1),
    ]
    assert runs.end_run(["in/b"]) == []
    runs.add_files("c")
    assert paths(runs.end_run()) == [("file:/in/c",)]
    runs.state.late_files = []  # the list in the journal is only for display
    assert runs.end_run() == []


def test_the_state_of_a_job_does_not_grow_with_late_files(runs: Runs) -> None:
    for number in range(REMEMBERED + 10):
        runs.add_files(*(f"{number}-{at}" for at in range(NAMED + 5)))
        (event,) = runs.end_run()
        assert (len(event.paths), event.total) == (NAMED, NAMED + 5)
    assert len(runs.state.late_files) == REMEMBERED
    assert runs.end_run() == []


def test_a_source_restarted_from_scratch_reports_its_late_files_again(runs: Runs) -> None:
    runs.add_files("a")
    runs.end_run()
    Restored(0, {}, time.time(), from_scratch=True).apply(runs.state)
    SourceFrozen("history", "frozen/history.0002.json", 1, time.time()).apply(runs.state)
    assert paths(runs.end_run()) == [("file:/in/a",)]
    assert runs.end_run() == []


def test_only_existing_files_are_remembered(runs: Runs) -> None:
    for number in range(30):
        runs.there = runs.there[:1]
        runs.add_files(*(f"{number}-{at}" for at in range(10)))
        assert sum(event.total for event in runs.end_run()) == 10
    kept = KnownLate(runs.storage, "job/frozen/history.json", "history")
    assert len(kept.read().files) == 10
    runs.there = runs.there[:1]
    assert runs.end_run() == []
    assert kept.read().files == frozenset()


def test_a_source_unchecked_by_the_last_epoch_is_reported(runs: Runs) -> None:
    sources = {"history": SourceDefinition(True, paths=("/in",), format="json")}
    definition = JobDefinition("streaming", sources, {}, {})
    PlanRecorded(JobGraph((), ()), {}, 1.0, definition).apply(runs.state)
    runs.state.epoch = 2
    assert unchecked_sources(runs.storage, runs.state) == ["history"]
    runs.end_run()
    assert unchecked_sources(runs.storage, runs.state) == []
    runs.state.epoch = 3
    assert unchecked_sources(runs.storage, runs.state) == ["history"]


def test_an_unreadable_list_causes_a_second_report(runs: Runs, caplog: pytest.LogCaptureFixture) -> None:
    runs.add_files("a")
    runs.end_run()
    runs.state.late_files = []
    runs.storage.replace(PATH, b"{")
    with caplog.at_level(logging.WARNING):
        assert paths(runs.end_run()) == [("file:/in/a",)]
    assert PATH in caplog.text
    runs.state.late_files = []
    assert runs.end_run() == []


class FailingReads(WrappedStorage):
    def read(self, path: str) -> bytes:
        raise StorageTransientError(verb="read", uri=path, reason="no answer")

    def _wrap(self, inner: Storage) -> FailingReads:
        return FailingReads(inner)


def test_a_fenced_driver_changes_no_list_of_late_files(runs: Runs) -> None:
    runs.add_files("a")
    kept = KnownLate(runs.storage, "job/frozen/history.json", "history")
    kept.write(5, {"file:/in/a", "file:/in/b"})
    runs.state.epoch = 4
    assert runs.end_run() == []
    assert kept.read() == LateFilesSeen(5, frozenset({"file:/in/a", "file:/in/b"}))


def test_a_failing_storage_does_not_count_as_an_empty_list(runs: Runs) -> None:
    runs.add_files("a")
    runs.end_run()
    runs.state.late_files = []
    with pytest.raises(StorageTransientError):
        runs.end_run(storage=FailingReads(runs.storage))


def test_a_list_of_a_later_release_is_refused(runs: Runs) -> None:
    runs.add_files("a")
    runs.storage.create(PATH, encode_document("late-files", 2, uid="history", files=[]))
    with pytest.raises(NewerFormatError):
        runs.end_run()


def test_a_list_of_late_files_matches_its_golden_copy(runs: Runs) -> None:
    runs.storage.create(PATH, GOLDEN.read_bytes())
    kept = KnownLate(runs.storage, "job/frozen/history.json", "history")
    assert kept.read() == LateFilesSeen(3, frozenset({"file:/in/a", "file:/in/ü b"}))
    kept.write(3, {"file:/in/ü b", "file:/in/a"})
    assert runs.storage.read(PATH) == GOLDEN.read_bytes()
