"""Texts of users and of data in a journal: a terminal shows them, and obeys none of them."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.cli.run import print_sentence
from airflow_provider_ckpt.journal.events import CheckpointAborted, CheckpointTriggered, JobCreated, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.status.status_line import StatusLine
from tests.cli.conftest import GRAPH, NOON, claim
from tests.support.journals import write_events

BAD = "x\x1b[2J\x1b]0;owned\x07\r\nstatus  FINISHED \u202e\ud800"
SHOWN = "x\\x1b[2J\\x1b]0;owned\\x07\\r\\nstatus  FINISHED \\u202e\\ud800"


@pytest.fixture
def odd(empty_root: str) -> Journal:
    journal = claim(empty_root)
    write_events(
        journal,
        JobCreated("orders", GRAPH, "streaming", SubmittedOptions({"params": {"day": BAD}}), NOON),
        CheckpointTriggered(1, NOON),
        CheckpointAborted(1, BAD, NOON + 1),
        StatusChanged(JobStatus.FAILED, NOON, BAD.replace("\r\n", " ")),
    )
    return journal


def test_show_escapes_parameters_and_causes(odd: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A lone surrogate used to end the command with a UnicodeEncodeError."""
    assert main(["show", "orders", "--root", empty_root]) == 0
    shown = capsys.readouterr().out
    assert f"day={SHOWN}\n" in shown
    assert SHOWN.replace("\\r\\n", " ") in shown
    assert [line for line in shown.splitlines() if line.startswith("status")] == ["status          FAILED"]
    shown.encode()


def test_other_commands_escape_odd_texts(odd: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["checkpoints", "orders"], ["jobs"], ["show", "orders", "--json"], ["gc"]):
        main([*command, "--root", empty_root])
    assert main(["show", f"no{BAD}", "--root", empty_root]) == 2
    shown = capsys.readouterr()
    assert SHOWN in shown.out
    for text in (shown.out, shown.err):
        assert not any(ord(char) < 32 and char != "\n" for char in text)
        text.encode()


def test_json_contains_the_unescaped_text(odd: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "orders", "--json", "--root", empty_root]) == 0
    assert json.loads(capsys.readouterr().out)["first_params"] == {"day": BAD}


def test_a_run_prints_each_message_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_sentence(StatusLine("warning", BAD))
    print_sentence(StatusLine("failed", BAD))
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (f"{SHOWN}\n", f"ckpt: error: {SHOWN}\n")
