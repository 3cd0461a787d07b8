"""``ckpt delete``, and the answers of the other commands about a deleted job."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.journal.events import DeletionBegun
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage
from tests.client.ended_job import EndedJob
from tests.client.persisted_job import JOB, PersistedJob
from tests.support.books import books

Capture = pytest.CaptureFixture[str]
Ckpt = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ckpt(tmp_path: Path, capsys: Capture) -> Ckpt:
    """Return a function that runs a command on the root: (exit code, standard output, standard error)."""

    def run(command: str, *arguments: str) -> tuple[int, str, str]:
        code = main([command, *arguments, "--root", str(tmp_path / "root")])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_delete_prints_what_was_deleted(tmp_path: Path, ckpt: Ckpt) -> None:
    job = EndedJob.run(tmp_path)
    files = job.files()
    size = sum(map(len, files.values()))
    assert ckpt("delete", "orders", "--yes") == (
        0,
        f"job orders (it was FINISHED) is deleted: {len(files)} files, {size} bytes\n"
        "sink lake: staged batches deleted: 1\n",
        "",
    )
    assert job.parts() == ["journal"]
    assert ckpt("delete", "orders") == (0, "job orders is DELETED already\n", "")
    printed = ckpt("checkpoints", "orders")[1]
    assert printed.startswith("job orders was deleted, with the records of its checkpoints (last completed: "), printed


def test_delete_without_a_terminal_needs_yes(tmp_path: Path, ckpt: Ckpt) -> None:
    job = EndedJob.run(tmp_path)
    files = job.files()
    code, out, err = ckpt("delete", "orders")
    assert (code, out) == (2, "")
    assert "is FINISHED and is not deleted: its id could never run again under that root. Give --yes" in err
    assert job.files() == files


class Terminal:
    """Standard input of a user who answers one question. None ends the input."""

    def __init__(self, answer: str | None) -> None:
        self._answer = answer

    def isatty(self) -> bool:
        return True

    def readline(self, *_: object) -> str:
        return "" if self._answer is None else f"{self._answer}\n"


@pytest.mark.parametrize(("answer", "deletes"), [("y", True), ("YES", True), ("", False), ("n", False), (None, False)])
def test_delete_asks_in_a_terminal(
    answer: str | None, deletes: bool, tmp_path: Path, ckpt: Ckpt, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = EndedJob.run(tmp_path)
    files = job.files()
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    code, out, _ = ckpt("delete", "orders")
    assert f"Delete job orders (FINISHED) under {tmp_path}/root for good? Its released output stays." in out
    assert code == (0 if deletes else 2)
    assert ("nothing was deleted" in out) == (job.files() == files) == (not deletes)


def test_a_refused_deletion_does_not_ask(tmp_path: Path, ckpt: Ckpt, monkeypatch: pytest.MonkeyPatch) -> None:
    EndedJob.run(tmp_path, JobStatus.STOPPED)
    monkeypatch.setattr("sys.stdin", Terminal("y"))
    code, out, err = ckpt("delete", "orders")
    assert (code, out) == (2, "")
    assert "--unfinished" in err


@pytest.mark.parametrize(
    ("status", "released", "option"),
    [
        (JobStatus.STOPPED, 2, "--unfinished"),
        (JobStatus.RUNNING, 2, "--abandoned"),
        (JobStatus.FINISHED, 1, "--discard-unreleased"),
    ],
)
def test_a_refused_deletion_names_the_option_that_allows_it(
    tmp_path: Path, ckpt: Ckpt, status: JobStatus, released: int, option: str
) -> None:
    job = EndedJob.run(tmp_path, status, released=released)
    code, out, err = ckpt("delete", "orders")
    assert (code, out) == (2, "")
    assert f"job 'orders' is {status} and is not deleted" in err
    assert f"add {option} (in Python {option[2:].replace('-', '_')}=True)" in err
    assert "vertices" in job.parts()
    assert ckpt("delete", "orders", option, "--yes")[0] == 0
    assert job.parts() == ["journal"]


def test_delete_names_staged_output_that_was_kept(tmp_path: Path, ckpt: Ckpt) -> None:
    job = EndedJob.run(tmp_path)
    _, out, _ = ckpt("delete", "orders", "--keep-staged", "--yes")
    assert out.splitlines()[1:] == ["sink lake: staged output was kept"]
    assert len(job.staged()) == 1


def test_delete_uses_the_sinks_of_the_given_definition(tmp_path: Path, ckpt: Ckpt) -> None:
    """Here the definition names the current folder of the lake."""
    job = EndedJob.run(tmp_path)
    moved = job.lake.rename(tmp_path / "moved")
    books(job.lake).rename(books(moved))
    file = tmp_path / "orders.py"
    file.write_text(
        "from airflow_provider_ckpt import FileSink, Job\n"
        "job = Job('orders')\n"
        "LAKE = job.param('lake')\n"
        "@job.source\n"
        "def v(read):\n"
        "    raise AssertionError\n"
        "job.sink('lake', v, FileSink(LAKE))\n"
    )
    code, out, _ = ckpt("delete", "orders", f"{file}:job", "--param", f"lake={moved}", "--yes")
    assert (code, out.splitlines()[1:]) == (0, ["sink lake: staged batches deleted: 1"])
    assert list((books(moved) / "orders/lake/staging").iterdir()) == []


def test_deleting_an_unknown_job_is_refused(tmp_path: Path, ckpt: Ckpt) -> None:
    assert ckpt("delete", "orders")[0] == 2
    EndedJob.run(tmp_path)
    code, _, err = ckpt("delete", "visits")
    assert code == 2
    assert "there is no job 'visits'" in err


def test_a_deleted_job_is_listed_on_request_and_shown(tmp_path: Path, ckpt: Ckpt) -> None:
    EndedJob.run(tmp_path)
    ckpt("delete", "orders", "--yes")
    assert "no jobs" in ckpt("jobs")[1]
    listed = re.split("  +", ckpt("jobs", "--deleted")[1].splitlines()[1])
    assert (listed[:2], listed[3:6]) == (["orders", "DELETED"], ["2", "2", "2"])
    assert json.loads(ckpt("jobs", "--json")[1]) == []
    shown = ckpt("show", "orders")[1]
    assert "status          DELETED\n" in shown
    assert ", was FINISHED\n" in shown
    view = json.loads(ckpt("show", "orders", "--json")[1])
    assert (view["status"], view["deletion"]["was"], view["last_released"]) == ("DELETED", "FINISHED", 2)
    assert view["checkpoints"] == []


def test_show_explains_an_interrupted_deletion(tmp_path: Path, ckpt: Ckpt) -> None:
    job = EndedJob.run(tmp_path)
    deleting = Journal(job.storage, "orders")
    deleting.claim("t~delete", Worker(), 9.0, releases_only=True)
    deleting.write(DeletionBegun(JobStatus.FINISHED, 9.0))
    assert "DELETING" in ckpt("jobs")[1]
    shown = ckpt("show", "orders")[1]
    assert "1970-01-01 00:00:09Z, was FINISHED, not complete: delete it again" in shown
    assert ckpt("delete", "orders")[0] == 0
    assert "not complete" not in ckpt("show", "orders")[1]


def test_show_mentions_no_deletion_of_other_jobs(tmp_path: Path, ckpt: Ckpt) -> None:
    EndedJob.run(tmp_path)
    assert "deleted" not in ckpt("show", "orders")[1]
    assert json.loads(ckpt("show", "orders", "--json")[1])["deletion"] is None


def test_persisted_results_are_shown_and_deleted_on_request(tmp_path: Path, ckpt: Ckpt) -> None:
    job = PersistedJob(open_storage(tmp_path / "root"))
    code, printed, _ = ckpt("show", JOB, "--partitions")
    assert (code, "keeps results of  clean" in " ".join(printed.split("\n")[0:40])) == (0, True), printed
    assert [line.split()[0] for line in printed.splitlines() if line.startswith("clean/")] == ["clean/0", "clean/1"]
    assert json.loads(ckpt("show", JOB, "--json")[1])["persisted"] == ["clean"]
    code, _, printed = ckpt("delete", JOB)
    assert (code, "the results of clean are kept" in printed, "--persisted" in printed) == (2, True, True)
    assert ckpt("delete", JOB, "--persisted", "--yes")[0] == 0
    assert job.data() == []
    assert json.loads(ckpt("show", JOB, "--json")[1])["persisted"] == []
