"""Commands about a job whose ``requests/`` folder contains files that are no requests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.journal.events import CheckpointReleased, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from tests.cli.conftest import NOON, claim
from tests.support.journals import write_events


@pytest.fixture
def hostile(running: Journal, empty_root: str) -> Path:
    folder = Path(empty_root.removeprefix("file://")) / "orders/requests"
    folder.mkdir()
    (folder / "deep.json").write_text("[" * 100_000 + "]" * 100_000)
    (folder / "digits.json").write_text("1" * 5_000)
    (folder / "itself.json").symlink_to("itself.json")
    (folder / "two\nlines.json").touch()
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    (folder / "huge.json").touch()
    os.truncate(folder / "huge.json", 1 << 40)
    return folder


@pytest.mark.parametrize("command", ["show orders", "show orders --json", "jobs", "gc", "stop orders", "drain orders"])
def test_no_command_fails_or_hangs_on_foreign_request_files(
    command: str, hostile: Path, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--root", empty_root]) == 0
    capsys.readouterr()


def test_foreign_request_files_of_a_finished_job_are_collected(
    running: Journal, hostile: Path, empty_root: str
) -> None:
    write_events(running, CheckpointReleased(3, NOON), StatusChanged(JobStatus.FINISHED, NOON))
    assert main(["gc", "--delete", "--root", empty_root]) == 0
    assert not hostile.exists()


@pytest.mark.parametrize("content", ["[" * 100_000 + "]" * 100_000, '{"version": ' + "1" * 400 + "}", '{"at": 1e999}'])
@pytest.mark.parametrize("name", ["00000001", "head-00000001"])
def test_an_invalid_journal_entry_affects_only_its_job(
    running: Journal, empty_root: str, content: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    claim(empty_root, "other")
    (Path(empty_root) / "other/journal" / f"{name}.json").write_text(content)
    for command in ("jobs", "gc"):
        main([command, "--root", empty_root])
        shown = capsys.readouterr()
        assert "orders" in shown.out
        assert f"{name}.json" in shown.out + shown.err
