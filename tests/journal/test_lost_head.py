"""Journal with a head record whose entry at the head is gone. It counts as damaged, not as empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.client.job_client import JobClient, list_jobs
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.errors import CorruptJournalError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.journal.samples import WORKER

LOST = r"journal/00000002\.json is damaged: it is missing, though a head record says that the log begins with it"


def compacted(root: Storage) -> Journal:
    """Return the journal of a job that runs. Its snapshot is entry 2, its claim entry 0."""
    journal = Journal(root, "orders")
    journal.claim("try-1", WORKER, 1.0)
    journal.write(ev.StatusChanged(JobStatus.RUNNING, 2.0))
    journal.compact(3.0)
    return journal


@pytest.fixture
def root(tmp_path: Path) -> Storage:
    return open_root(open_storage(tmp_path / "root"))


def entry(number: int) -> str:
    return f"orders/journal/{number:08d}.json"


def test_a_job_without_its_head_is_shown_as_damaged(root: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    compacted(root)
    root.delete(entry(2))
    state = JobClient(root, "orders").state()
    assert state.epoch == 0
    assert [state.job_id for state in list_jobs(root)] == ["orders"]
    main(["show", "orders", "--root", root.uri])
    shown = capsys.readouterr()
    assert "00000002.json is damaged: it is missing, though a head record says" in shown.out
    assert "no job" not in shown.err


def test_no_driver_restarts_a_job_without_its_head_from_scratch(root: Storage) -> None:
    compacted(root)
    before = {name for name, _ in root.files("")} - {entry(2)}
    root.delete(entry(2))
    with pytest.raises(CorruptJournalError, match=LOST):
        Journal(root, "orders").claim("try-2", WORKER, 4.0)
    assert {name for name, _ in root.files("")} == before


def test_a_reader_notices_that_the_head_is_deleted(root: Storage) -> None:
    compacted(root)
    reader = Journal(root, "orders")
    assert reader.refresh().status is JobStatus.RUNNING
    root.delete(entry(2))
    assert "is damaged" in "".join(reader.refresh().damage)


def test_a_journal_is_whole_after_each_compaction(root: Storage) -> None:
    journal = compacted(root)
    for number in range(3):
        journal.write(ev.StatusChanged(JobStatus.RUNNING, 4.0 + number))
        journal.compact(5.0 + number)
        state = Journal(root, "orders").replay()
        assert (state.damage, state.status) == ([], JobStatus.RUNNING)


class LateList(WrappedStorage):
    """Storage whose first listing of a folder is from its creation.

    An object store may list this way, page by page, while a driver truncates the log.
    """

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._stale = {"orders/journal": inner.list("orders/journal")}

    def list(self, path: str) -> list[str]:
        return self._stale.pop(path, None) or super().list(path)


def test_a_listing_from_before_a_truncation_is_no_damage(root: Storage) -> None:
    journal = compacted(root)
    late = LateList(root)
    journal.write(ev.StatusChanged(JobStatus.STOPPED, 4.0))
    journal.compact(5.0)
    assert not root.exists(entry(2))
    state = Journal(late, "orders").replay()
    assert (state.damage, state.status) == ([], JobStatus.STOPPED)


def test_a_copy_with_only_its_claims_is_damaged(root: Storage) -> None:
    journal = compacted(root)
    journal.write(ev.StatusChanged(JobStatus.RUNNING, 4.0))
    for number in (2, 3):
        root.delete(entry(number))
    assert root.exists(entry(0)), "the claim stays"
    assert "is damaged" in "".join(Journal(root, "orders").replay().damage)


def test_a_snapshot_of_another_job_is_damage(root: Storage) -> None:
    compacted(root)
    text = root.read(entry(2)).partition(b', "crc32"')[0] + b"}"
    root.replace(entry(2), text.replace(b'"job_id": "orders"', b'"job_id": "rates"'))
    [state] = list_jobs(root)
    assert state.job_id == "orders"
    assert "they are of job 'rates'" in "".join(state.damage)
