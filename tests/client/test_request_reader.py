"""Polls of a JobMaster over a folder to which others write requests."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.jobmaster import request_reader
from airflow_provider_ckpt.jobmaster.request_reader import MOST_WARNINGS, READS, RequestReader
from airflow_provider_ckpt.journal.request_files import MOST_FILES, write_request
from airflow_provider_ckpt.model.job_request import StopRequest
from airflow_provider_ckpt.storage.errors import StorageDeniedError, StorageReadOnlyError, StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.paths import Names
from airflow_provider_ckpt.testing.crash import WrappedStorage

FOLDER = "orders/requests"


class Counted(WrappedStorage):
    """Storage that counts the verbs of a poll, and fails on demand."""

    def __init__(self, root: Path) -> None:
        super().__init__(open_storage(root))
        self.counts: Counter[str] = Counter()
        self.list_fails: Exception | None = None
        self.delete_fails = False

    def list_some(self, path: str, most: int) -> Names:
        self.counts["list"] += 1
        if self.list_fails is not None:
            raise self.list_fails
        return self.inner.list_some(path, most)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        self.counts["read"] += 1
        return self.inner.read_range(path, start, end)

    def delete(self, path: str) -> None:
        if self.delete_fails:
            raise StorageReadOnlyError(uri=self.full_uri(path), reason="not yours")
        super().delete(path)

    def taken(self) -> Counter[str]:
        counts, self.counts = self.counts, Counter()
        return counts


class Polled:
    """A reader of epoch 7 with its warnings and its clock."""

    def __init__(self, root: Path, since: int = 7) -> None:
        self.folder = root / FOLDER
        self.folder.mkdir(parents=True)
        self.storage, self.now, self.warnings = Counted(root), 0.0, list[str]()
        self.reader = RequestReader(self.storage, "orders", 7, since, self.warnings.append, clock=lambda: self.now)

    def poll(self, *answered: str) -> list[str]:
        """Poll as a JobMaster does, a second later."""
        self.now += 1.0
        self.reader.delete_others()
        return [request.name for request in self.reader.pending(answered)]

    def put(self, name: str, content: bytes = b"?") -> None:
        (self.folder / f"{name}.json").write_bytes(content)

    def ask(self, epoch: int = 7) -> str:
        return write_request(self.storage, "orders", StopRequest(epoch=epoch)).name

    @property
    def names(self) -> list[str]:
        return [name.removesuffix(".json") for name in sorted(os.listdir(self.folder))]


@pytest.fixture
def polled(tmp_path: Path) -> Polled:
    return Polled(tmp_path)


def test_an_invalid_file_is_warned_about_once_among_valid_requests(polled: Polled) -> None:
    polled.put("deep", b"[" * 30_000 + b"]" * 30_000)
    os.mkfifo(polled.folder / "pipe.json")
    good = polled.ask()
    for _ in range(60):
        assert polled.poll() == [good]
    deep, pipe = polled.warnings
    assert deep.startswith("'deep' in requests/ is not taken as a request: ")
    assert deep.endswith("deep.json is not a readable request file: it is nested deeper than 100 levels")
    assert pipe.startswith("'pipe' in requests/ is not taken as a request: the storage cannot read ")
    assert "it is not a regular file" in pipe


def test_an_invalid_file_is_read_again_at_growing_intervals(polled: Polled) -> None:
    """The file may be incomplete, or the driver may get the right to read it later."""
    polled.put("half")
    for _ in range(1000):
        polled.poll()
    assert 5 <= polled.storage.taken()["read"] <= 10
    stop = polled.ask()
    (polled.folder / f"{stop}.json").rename(polled.folder / "half.json")
    reads = 0
    while polled.poll() != ["half"]:
        reads += 1
        assert reads < 600
    assert len(polled.warnings) == 1


def test_a_folder_and_a_broken_link_are_no_requests(polled: Polled) -> None:
    (polled.folder / "folder.json").mkdir()
    (polled.folder / "link.json").symlink_to("nowhere")
    for _ in range(30):
        assert polled.poll() in ([], ["link"])
    assert sorted(warning.partition(" in ")[0] for warning in polled.warnings) == ["'folder'", "'link'"]
    assert polled.storage.taken()["read"] <= 6


def test_a_request_for_another_epoch_is_deleted_at_the_next_poll(polled: Polled) -> None:
    """The JobMaster asks before each poll whether the journal has a later epoch, and ends if it has one."""
    mine, earlier, later = polled.ask(), polled.ask(6), polled.ask(8)
    assert polled.poll() == [mine]
    assert polled.names == sorted([mine, earlier, later])
    assert polled.poll() == [mine]
    assert polled.names == [mine]
    assert polled.warnings == []


def test_w20_requests_to_earlier_jobmasters_of_the_deployment_are_taken(tmp_path: Path) -> None:
    polled = Polled(tmp_path, since=5)
    asked = [polled.ask(epoch) for epoch in (5, 6, 7)]
    gone = polled.ask(4)
    assert polled.poll() == asked
    polled.poll()
    assert gone not in polled.names


def test_a_failed_deletion_is_warned_about_once_and_retried(polled: Polled) -> None:
    later = polled.ask(8)
    polled.storage.delete_fails = True
    for _ in range(30):
        polled.poll()
    (warning,) = polled.warnings
    assert f"request {later} is for another driver, and cannot be deleted: " in warning
    polled.storage.delete_fails = False
    for _ in range(100):
        polled.poll()
    assert polled.names == []


@pytest.mark.parametrize(("files", "others"), [(0, 0), (10, 0), (10, 1_000)])
def test_a_poll_without_new_files_costs_one_list(polled: Polled, files: int, others: int) -> None:
    answered = [polled.ask() for _ in range(files)]
    for number in range(others - files):
        polled.put(f"junk-{number}")
    for _ in range(22):
        polled.poll(*answered)
    polled.storage.taken()
    assert polled.poll(*answered) == []
    assert polled.storage.taken() == Counter(list=1)


def test_a_flood_of_files_costs_a_poll_limited_reads(polled: Polled) -> None:
    for number in range(3 * MOST_FILES):
        polled.put(f"{number:06d}")
    for _ in range(20):
        polled.poll()
        counts = polled.storage.taken()
        assert counts["list"] == 1
        assert counts["read"] <= READS
    assert len(polled.warnings) == MOST_WARNINGS + 2
    assert f"holds {MOST_FILES} files or more" in polled.warnings[0]
    assert "more files" in polled.warnings[-1]


def test_a_full_folder_is_warned_about_after_other_warnings(polled: Polled) -> None:
    for number in range(2 * MOST_WARNINGS):
        polled.put(f"{number:06d}")
    polled.poll()
    for number in range(2 * MOST_WARNINGS, MOST_FILES):
        polled.put(f"{number:06d}")
    polled.poll()
    assert f"holds {MOST_FILES} files or more" in polled.warnings[-1]


def test_a_flood_of_requests_for_unknown_epochs_is_deleted(polled: Polled) -> None:
    for _ in range(2 * READS):
        polled.ask(10**6)
    good = polled.ask()
    for _ in range(6):
        polled.poll()
    assert polled.names == [good]
    assert polled.poll() == [good]


def test_a_request_among_many_invalid_files_is_found(polled: Polled) -> None:
    for number in range(MOST_FILES - 1):
        polled.put(f"{number:06d}")
    stop = polled.ask()
    (polled.folder / f"{stop}.json").rename(polled.folder / "zzz.json")
    polls = [polled.poll() for _ in range(MOST_FILES // READS)]
    assert ["zzz"] in polls


def test_an_unlistable_folder_is_warned_about_once(polled: Polled) -> None:
    good = polled.ask()
    for fails in (True, False, True):
        denied = StorageDeniedError(uri=polled.storage.full_uri(FOLDER), reason="mode 0700 of root")
        polled.storage.list_fails = denied if fails else None
        for _ in range(3):
            assert polled.poll() == ([] if fails else [good])
    assert len(polled.warnings) == 2
    assert "no request to this job can be read: " in polled.warnings[0]


def test_an_unreachable_storage_is_an_error(polled: Polled) -> None:
    polled.storage.list_fails = StorageTransientError(verb="list", uri=FOLDER, reason="503")
    with pytest.raises(StorageTransientError):
        polled.poll()


def test_deleted_files_are_forgotten(polled: Polled) -> None:
    """A driver runs for a year."""
    for number in range(5):
        polled.put(f"junk-{number}")
    polled.ask(6)
    polled.poll()
    for name in polled.names:
        (polled.folder / f"{name}.json").unlink()
    polled.poll()
    reader = polled.reader
    assert (reader._retries, reader._earlier, reader._later) == ({}, set(), set())
    assert request_reader.FIRST_RETRY < request_reader.LAST_RETRY


def test_a_poll_of_a_slow_storage_ends_in_time(polled: Polled, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object store takes 20 ms and more for each file."""

    def slow(verb: Callable[..., Any]) -> Callable[..., Any]:
        def slowly(*args: Any) -> Any:
            polled.now += 0.3
            return verb(*args)

        return slowly

    monkeypatch.setattr(polled.storage, "read_range", slow(polled.storage.read_range))
    monkeypatch.setattr(polled.storage, "delete", slow(polled.storage.delete))
    names = {polled.ask(8) for _ in range(20)}
    for _ in range(12):
        began = polled.now
        polled.poll()
        assert polled.now - began <= 1.0 + 2 * 1.5
    assert polled.names == []
    assert len(names) == 20
