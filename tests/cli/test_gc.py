"""``ckpt gc``: its output, its exit codes and its JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.cli.gc import _WHY
from airflow_provider_ckpt.jobmaster.retention.garbage import Reason
from airflow_provider_ckpt.model.job_status import JobStatus
from tests.client.crashed_job import CrashedJob
from tests.client.ended_job import HERE, EndedJob
from tests.docs.examples import ROOT

Capture = pytest.CaptureFixture[str]
Ckpt = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ckpt(tmp_path: Path, capsys: Capture) -> Ckpt:
    """Return a function that runs a command on the root: (exit code, standard output, standard error)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["gc", *arguments, "--root", str(tmp_path / "root")])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_gc_prints_the_garbage_and_deletes_it_on_request(tmp_path: Path, ckpt: Ckpt) -> None:
    job = EndedJob.run(tmp_path)
    before = job.files()
    requests = sum(len(data) for path, data in before.items() if path.startswith("requests/"))
    lines = (
        "job orders (FINISHED)\n"
        f"  4 files, {requests + 12} bytes: the job has FINISHED and did not delete it\n"
        "  1 file, 2 bytes: staged by attempts that are over\n"
    )
    total = f"5 files, {requests + 14} bytes"
    assert ckpt() == (0, f"{lines}no longer needed: {total}; --delete deletes them\n", "")
    assert job.files() == before
    assert ckpt("--delete") == (0, f"{lines}deleted: {total}\n", "")
    assert ckpt("orders") == (0, "no longer needed: 0 files, 0 bytes\n", "")


def test_gc_reports_that_a_running_job_is_skipped(tmp_path: Path, ckpt: Ckpt) -> None:
    CrashedJob.run(tmp_path, JobStatus.RUNNING, HERE)
    assert ckpt("--delete")[:2] == (
        0,
        "job orders (RUNNING)\n  skipped: its driver lives\ndeleted: 0 files, 0 bytes\n",
    )


def test_gc_reports_an_unreadable_job_as_an_error(tmp_path: Path, ckpt: Ckpt) -> None:
    job = CrashedJob.run(tmp_path)
    sorted((job.root / "orders/journal").glob("*.json"))[-1].write_text("{")
    code, out, err = ckpt("--delete")
    assert (code, out) == (1, "deleted: 0 files, 0 bytes\n")
    assert err.startswith("ckpt: error: job orders: ")
    assert json.loads(ckpt("--json")[1])["jobs"][0]["problem"] in err


def test_gc_refuses_a_missing_root_and_an_unknown_job(tmp_path: Path, ckpt: Ckpt) -> None:
    assert ckpt()[0] == 2
    CrashedJob.run(tmp_path)
    code, _, err = ckpt("visits")
    assert code == 2
    assert "there is no job 'visits'" in err


def test_the_json_of_gc_is_documented_and_contains_no_secret(
    tmp_path: Path, ckpt: Ckpt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CKPT_STORAGE_OPTIONS", '{"auto_mkdir": "hunter2"}')
    job = CrashedJob.run(tmp_path)
    (job.root / "photos").mkdir()
    (job.root / "photos/1.jpg").write_text("mine")
    code, out, err = ckpt("--json")
    report = json.loads(out)
    assert (code, err) == (0, "")
    assert "hunter2" not in out
    keys = ["format", "version", "root", "deleted", "files", "bytes", "jobs", "temporary", "strange"]
    assert list(report) == keys
    assert (report["format"], report["version"], report["deleted"]) == ("airflow-provider-ckpt/garbage", 1, False)
    [job_report] = report["jobs"]
    assert list(job_report) == ["job_id", "status", "files", "bytes", "garbage", "skipped", "problem", "left"]
    assert list(job_report["garbage"][0]) == ["path", "sink", "reason", "files", "bytes"]
    assert {each["sink"] for each in job_report["garbage"] if each["reason"] == "staged"} == {"lake"}
    assert report["strange"] == [{"name": "photos", "what": "it is no job of this package"}]
    page = (ROOT / "docs/cli.md").read_text("utf-8").partition("## Collecting garbage")[2].partition("\n## ")[0]
    assert [word for word in (*keys, *job_report, *job_report["garbage"][0]) if f"`{word}`" not in page] == []
    assert [reason for reason in Reason if f"| `{reason}` |" not in page] == []


def test_every_reason_for_garbage_has_an_explanation() -> None:
    assert set(_WHY) == set(Reason)
