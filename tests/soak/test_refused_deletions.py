"""Refused deletions: an object under legal hold, or another user's file.

It is left where it is. Everything else is deleted as usual, and the object itself as soon as possible.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.storage.errors import StorageReadOnlyError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.removal import MOST, Removal, best_effort
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.soak.aging_job import AgingJob
from tests.support.refusing_storage import RefusingStorage

pytestmark = pytest.mark.slow


def files(storage: Storage) -> int:
    return len(storage.files(""))


@pytest.mark.parametrize("name", ["data/0001-x-3-n", "checkpoints/chk-7"])
def test_r7_a_refused_deletion_does_not_stop_the_others(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sound = AgingJob(open_storage(f"memory://{tmp_path}/sound"), 1)
    storage = open_storage(f"memory://{tmp_path}/refusing")
    refusing = RefusingStorage(storage, lambda path: path.endswith(name))
    job = AgingJob(refusing, 1)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            sound.run(150)
            job.run(150)
    assert sum(name in path for path, _ in storage.files("")) == 1
    assert files(storage) <= files(open_storage(f"memory://{tmp_path}/sound")) + 6
    assert sum("stays for now" in record.getMessage() for record in caplog.records) <= 2, "once by each driver"
    refusing.refused = lambda path: False
    job.run(150)
    assert not any("checkpoints/chk-7/" in path for path, _ in storage.files(""))


def test_r7_a_refused_portable_copy_does_not_stop_deletions(tmp_path: Path) -> None:
    """No start reads this copy, so a refused write must not let the journal and the logs grow."""

    class Denied(WrappedStorage):
        def replace(self, path: str, data: bytes) -> None:
            if "/checkpoints/" in path:
                raise StorageReadOnlyError(uri=path, reason="Permission denied")
            super().replace(path, data)

    sound = open_storage(f"memory://{tmp_path}/sound")
    storage = open_storage(f"memory://{tmp_path}/denied")
    AgingJob(sound, 1).run(150)
    AgingJob(Denied(storage), 1).run(150)
    assert files(storage) <= files(sound)


def test_a_failed_deletion_is_retried_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    storage = RefusingStorage(open_storage(f"memory://{tmp_path}"), lambda path: True)
    removal = Removal(storage)
    for number in range(12):
        storage.create(f"f{number}/a", b"")
        removal.delete(f"f{number}")
        removal.delete(f"f{number}")
    removal.retry()
    assert len(caplog.records) == 12
    storage.refused = lambda path: path == "f9"
    removal.retry()
    removal.retry()
    assert [path for path, _ in storage.files("")] == ["f9/a"]


def test_the_number_of_remembered_failed_deletions_is_limited(tmp_path: Path) -> None:
    removal = Removal(RefusingStorage(open_storage(f"memory://{tmp_path}"), lambda path: True))
    for number in range(MOST + 5):
        removal.delete(f"f{number}")
    assert len(removal._failed) == MOST


def test_an_overtaken_driver_deletes_nothing() -> None:
    def overtaken(path: str) -> bool:
        raise FencedError(job_id="job", epoch=2, attempt="a", worker="w", own_epoch=1)

    with pytest.raises(FencedError):
        Removal(RefusingStorage(open_storage("memory://overtaken"), overtaken)).delete("f")
    with pytest.raises(FencedError), best_effort("f"):
        overtaken("f")


def test_a_fenced_deletion_ends_its_pass_and_no_later_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A fence set by another attempt of a subtask does not concern the job. The driver continues and cleans up."""
    asked: list[str] = []

    def fenced(path: str) -> bool:
        asked.append(path)
        if path.startswith("job/checkpoints/") and not fences:
            fences.append(path)
            raise FencedError(job_id="job", epoch=2, attempt="a", worker="w", own_epoch=1)
        return False

    fences: list[str] = []
    storage = open_storage(f"memory://{tmp_path}/fenced")
    sound = open_storage(f"memory://{tmp_path}/sound")
    with caplog.at_level(logging.WARNING):
        AgingJob(RefusingStorage(storage, fenced), 1).run(150)
    AgingJob(sound, 1).run(150)
    assert len(fences) == 1
    first = asked.index(fences[0])
    assert asked[first + 1].startswith("job/checkpoints/"), "the rest of that pass would have deleted data"
    assert sum("housekeeping" in record.getMessage() for record in caplog.records) == 1
    assert files(storage) <= files(sound) + 6
