"""``ckpt jobs``, ``ckpt show`` and ``ckpt checkpoints``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.journal.events import FilesForgotten, RequestAnswered, SourceFilesChanged, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.file_status import ChangedFile
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from tests.cli.conftest import NOON, claim
from tests.support.journals import write_events

parse_outcome = RequestOutcome.parse


def _files(root: str) -> set[Path]:
    return set(Path(root).rglob("*"))


def test_jobs_lists_every_job_with_its_last_checkpoints(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_events(claim(empty_root, "other"), StatusChanged(JobStatus.FINISHED, 0.0))
    assert main(["jobs", "--root", empty_root]) == 0
    head, orders, other = (re.split("  +", line) for line in capsys.readouterr().out.splitlines())
    assert head == ["JOB", "STATUS", "AGE", "EPOCH", "COMPLETED", "RELEASED", "LAST RELEASE", "DAMAGE"]
    assert (orders[:2], orders[3:6], orders[-1]) == (["orders", "RUNNING"], ["1", "3", "1"], "-")
    assert (orders[2][-2:], orders[6][-4:]) == (" h", " ago")
    assert other == ["other", "FINISHED", "-", "1", "-", "-", "-", "-"]


def test_an_empty_root_has_no_jobs(empty_root: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--root", empty_root]) == 0
    assert "no jobs" in capsys.readouterr().out
    assert main(["jobs", "--root", empty_root, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_show_prints_the_driver_and_the_finished_sources(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "orders", "--root", empty_root]) == 0
    shown = capsys.readouterr().out
    lines = dict(line.split("  ", 1) for line in shown.splitlines() if "  " in line.strip())
    facts = {name.strip(): value.strip() for name, value in lines.items()}
    assert facts["status"] == "RUNNING"
    assert facts["driver"] == "worker-7, pid 4711"
    assert facts["application"] == "app-42"
    assert facts["created"] == "2026-02-25 06:13:20Z"
    assert facts["last completed"] == "3"
    assert facts["last released"] == "1"
    assert facts["finished"] == "history"


def test_show_names_late_files_but_not_all_of_a_long_list(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["show", "orders", "--root", empty_root])
    shown = capsys.readouterr().out
    assert "history: 7 files came after the end and are not in the output:" in shown
    assert "/lake/orders/late-4.json" in shown
    assert "/lake/orders/late-5.json" not in shown
    assert "and 2 more" in shown


def test_show_names_changed_and_forgotten_files(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["show", "orders", "--root", empty_root])
    assert "changed files" not in capsys.readouterr().out
    changed = (ChangedFile("/in/a.json", 10, 30), ChangedFile("/in/b.json", None, 4))
    write_events(
        running,
        SourceFilesChanged("live", changed, 3, 20, NOON + 900),
        SourceFilesChanged("live", (ChangedFile("/in/a.json", 30, 35),), 1, 5, NOON + 901),
        FilesForgotten(("/in/x.json.tmp",), NOON + 902),
    )
    main(["show", "orders", "--root", empty_root])
    shown = capsys.readouterr().out
    assert "files of live that changed after they were read: 4, 25 bytes were not read" in shown
    assert "live: /in/a.json grew after it was read: 20 bytes were not read" in shown
    assert "live: 1 more file changed after it was read" in shown
    assert "/in/x.json.tmp" in shown
    main(["show", "orders", "--root", empty_root, "--json"])
    view = json.loads(capsys.readouterr().out)
    assert view["changed_files"]["counts"] == {"live": {"files": 4, "bytes": 25}}
    assert [file["bytes_now"] for file in view["changed_files"]["last"]] == [30, 4, 35]
    assert view["forgotten_files"] == ["/in/x.json.tmp"]


def test_show_prints_the_outcome_of_a_failed_stop(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_events(
        running,
        RequestAnswered("r1", "stop", parse_outcome("accepted"), NOON + 801),
        RequestAnswered("r1", "stop", parse_outcome("failed: the savepoint expired; the job continues"), NOON + 900),
        RequestAnswered("r2", "stop", parse_outcome("accepted"), NOON + 901),
        RequestAnswered("r2", "stop", parse_outcome("completed: savepoint 5"), NOON + 902),
    )
    assert main(["show", "orders", "--root", empty_root]) == 0
    shown = capsys.readouterr().out
    assert "request r1 failed: the savepoint expired; the job continues" in shown
    assert "r2" not in shown
    main(["show", "orders", "--root", empty_root, "--json"])
    assert json.loads(capsys.readouterr().out)["requests"] == [
        {"request": "r1", "outcome": "failed: the savepoint expired; the job continues"},
        {"request": "r2", "outcome": "completed: savepoint 5"},
    ]


def test_the_keys_of_show_json_are_documented(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["show", "orders", "--root", empty_root, "--json", "--partitions"])
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
    table = page.partition("`ckpt show --json`")[2].partition("\n\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert documented == list(json.loads(capsys.readouterr().out))


def test_show_json_is_the_whole_state(running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "orders", "--root", empty_root, "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["job_id"], state["epoch"], state["last_completed"]) == ("orders", 1, 3)
    assert state["finished_operators"] == ["history"]
    assert state["damage"] == []


def test_checkpoints_prints_the_status_of_each(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoints", "orders", "--root", empty_root]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [(row[0], row[2]) for row in rows] == [
        ("4", "in"),  # in progress
        ("3", "completed"),
        ("2", "aborted"),
        ("1", "released"),
    ]
    assert rows[3][-4:-2] == ["250", "ms"]
    assert rows[2][-1] == "CHECKPOINT_EXPIRED"
    assert rows[1][-4:-2] == ["65.0", "s"]


def test_checkpoints_lists_only_the_newest_if_asked(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoints", "orders", "--root", empty_root, "-n", "2"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["4", "3"]
    assert main(["checkpoints", "orders", "--root", empty_root, "-n", "0"]) == 2
    assert "-n is 0" in capsys.readouterr().err


def test_checkpoints_json_is_a_list(running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", "orders", "--root", empty_root, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["checkpoint"] for row in rows] == [1, 2, 3, 4]
    assert list(rows[0].items()) == [
        ("checkpoint", 1),
        ("kind", "checkpoint"),
        ("status", "released"),
        ("triggered_at", NOON + 30),
        ("completed_at", NOON + 30.25),
        ("released_at", NOON + 30.5),
        ("duration_ms", 250),
        ("reason", None),
        ("finished", []),
        ("sinks", {"lake": {"files": 3}}),
        ("late_rows", {}),
        ("malformed_rows", {}),
    ]
    nothing = dict.fromkeys(("completed_at", "released_at", "duration_ms"))
    of_all: dict[str, Any] = {"kind": "checkpoint", "finished": [], "sinks": {}, **nothing}
    of_all |= {"late_rows": {}, "malformed_rows": {}}
    assert rows[1] == {
        **of_all,
        "checkpoint": 2,
        "status": "aborted",
        "triggered_at": NOON + 60,
        "reason": "CHECKPOINT_EXPIRED",
    }
    assert rows[3] == {
        **of_all,
        "checkpoint": 4,
        "status": "in progress",
        "triggered_at": NOON + 800,
        "reason": None,
    }
    main(["show", "orders", "--root", empty_root, "--json"])
    assert json.loads(capsys.readouterr().out)["checkpoints"] == rows


@pytest.mark.parametrize("command", [["jobs"], ["show", "orders"], ["checkpoints", "orders"]])
def test_read_commands_write_nothing(command: list[str], running: Journal, empty_root: str) -> None:
    before = _files(empty_root)
    assert main([*command, "--root", empty_root]) == 0
    assert _files(empty_root) == before


def test_show_prints_the_damage_and_the_intact_part(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max(Path(empty_root, "orders", "journal").glob("0*.json"))
    newest.write_text("{")
    assert main(["show", "orders", "--root", empty_root]) == 0
    shown = capsys.readouterr().out
    assert newest.name in shown
    assert "damage" in shown
    assert "RUNNING" in shown


def test_an_unknown_job_is_refused_with_the_names_of_the_jobs(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "oders", "--root", empty_root]) == 2
    refusal = capsys.readouterr().err
    assert "'oders'" in refusal
    assert "orders" in refusal
    assert "Traceback" not in refusal


@pytest.mark.parametrize("job", ["../orders", "a/b", "", "." * 3])
def test_an_impossible_job_id_is_refused(job: str, empty_root: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", job, "--root", empty_root]) == 2
    assert "ckpt: error:" in capsys.readouterr().err


def test_a_folder_that_is_no_root_is_refused_and_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--root", str(tmp_path / "nothing")]) == 2
    assert "is not a checkpoint root" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_installed_command_prints_the_same(running: Journal, empty_root: str) -> None:
    command = [str(Path(sys.executable).parent / "ckpt")]
    if not Path(command[0]).exists():  # if it is not installed here, run the entry point directly
        command = [
            sys.executable,
            "-c",
            "import sys; from airflow_provider_ckpt.cli import main; sys.exit(main())",
        ]
    done = subprocess.run(
        [*command, "show", "orders", "--root", empty_root],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "RUNNING" in done.stdout


def test_show_imports_neither_spark_nor_airflow(running: Journal, empty_root: str) -> None:
    code = (
        "import sys; from airflow_provider_ckpt.cli import main; "
        f"main(['show', 'orders', '--root', {empty_root!r}]); "
        "sys.exit(bool({'pyspark', 'airflow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False).returncode == 0
