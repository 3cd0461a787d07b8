"""One job of several cannot be read. The others are listed and collected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.client.garbage_collection import collect_garbage
from airflow_provider_ckpt.client.job_client import list_jobs
from airflow_provider_ckpt.errors import kind_and_text
from airflow_provider_ckpt.journal import journal as journals
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.errors import StorageDeniedError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.journal.samples import WORKER

DEEP = b"[" * 100_000 + b"]" * 100_000
START = b'{"format": "airflow-provider-ckpt/journal", "version": 1, "number": 1, "writer": "w", "body": '
EVENT = START + b'{"release": "0.1", "events": [{"type": "StatusChanged", "status": "RUNNING", "at": %s}]}}'
BAD: dict[str, tuple[bytes, str]] = {
    "nested": (START + DEEP + b"}", "nested deeper than 100 levels"),
    "a large number": (EVENT % (b"9" * 400), "more than 100 digits"),
    "a time that is none": (EVENT % b"NaN", "NaN in it is no number of JSON"),
    "a time that no clock shows": (EVENT % b"1e300", "is not from 0 to 253402300799"),
    "a later release": (EVENT.replace(b"StatusChanged", b"Dreamed") % b"1", "of type 'Dreamed'"),
}


@pytest.fixture
def root(tmp_path: Path) -> Storage:
    """Return a root with the jobs a, b and c."""
    root = open_root(open_storage(tmp_path / "root"))
    for job_id in ("a", "b", "c"):
        Journal(root, job_id).claim("try-1", WORKER, 1.0)
    return root


@pytest.mark.parametrize("case", BAD)
def test_an_unreadable_journal_affects_only_its_job(
    root: Storage, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data, problem = BAD[case]
    root.create("b/journal/00000001.json", data)
    states = {job.job_id: job.damage for job in list_jobs(root)}
    assert (states["a"], states["c"]) == ([], [])
    [damage] = states["b"]
    assert "b/journal/00000001.json" in damage
    assert problem in damage
    assert main(["jobs", "--root", root.uri, "--json"]) == 0
    assert {job["job_id"]: job["damage"] for job in json.loads(capsys.readouterr().out)} == states
    assert main(["jobs", "--root", root.uri]) == 0
    assert main(["gc", "--root", root.uri]) == 1
    assert capsys.readouterr().err.startswith("ckpt: error: job b: ")
    assert list(collect_garbage(root).problems) == ["b"]


class Denied(WrappedStorage):
    """Storage that refuses to list the folder of job b."""

    def list(self, path: str) -> list[str]:
        if path.startswith("b"):
            raise StorageDeniedError(uri=self.full_uri(path), reason="AccessDenied")
        return super().list(path)


def test_an_unlistable_job_folder_affects_only_its_job(root: Storage) -> None:
    states = {job.job_id: job.damage for job in list_jobs(Denied(root))}
    assert (states["a"], states["c"]) == ([], [])
    assert "/b/journal" in states["b"][0]
    assert "AccessDenied" in states["b"][0]
    assert list(collect_garbage(Denied(root)).problems) == ["b"]


def test_an_unlistable_strange_folder_does_not_stop_the_collection(root: Storage, tmp_path: Path) -> None:
    (tmp_path / "root" / "lost+found").mkdir()
    assert collect_garbage(Denied(root)).strange[0].name == "lost+found"


@pytest.mark.parametrize("error", [RecursionError("deep"), KeyError("x"), ZeroDivisionError(), RuntimeError("bug")])
def test_an_error_of_the_replay_affects_only_its_job(
    root: Storage, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    replay: Callable[[Journal], object] = Journal.replay

    def failing(journal: Journal) -> object:
        if journal.job_id == "b":
            raise error
        return replay(journal)

    monkeypatch.setattr(journals.Journal, "replay", failing)
    states = {job.job_id: job.damage for job in list_jobs(root)}
    assert (states["a"], states["c"]) == ([], [])
    assert states["b"] == [f"its journal cannot be read: {kind_and_text(error)}"]
    assert list(collect_garbage(root).problems) == ["b"]
