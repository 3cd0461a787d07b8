"""The output of ``ckpt run`` for a status line."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.cli import build_parser
from airflow_provider_ckpt.cli.run import print_sentence, printer
from airflow_provider_ckpt.status.status_line import LineKind, StatusLine

# as Spark gives it: without a line break at its end
TRACE = 'Traceback (most recent call last):\n  File "/job.py", line 9, in price\n    1 / 0\nZeroDivisionError: x'
FRAMES = '  File "/job.py", line 9, in price\n    1 / 0\n'


def test_a_failure_cause_is_printed_once_with_user_frames(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_sentence(
        StatusLine(LineKind.SUBTASK_FAILED, "priced/0 failed with ZeroDivisionError: x", {"traceback": TRACE})
    )
    printed = capsys.readouterr()
    assert printed.out == "priced/0 failed with ZeroDivisionError: x\n"
    assert printed.err == FRAMES


def test_an_error_is_printed_on_its_own_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    more = {"traceback": TRACE, "traces": "/tmp/ckpt-1.log"}
    print_sentence(StatusLine(LineKind.FAILED, "job orders RESTARTING", more))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"{FRAMES}ckpt: whole stack traces are in /tmp/ckpt-1.log\nckpt: error: job orders RESTARTING\n"
    )


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["sentences", "json"])
def test_quiet_lines_are_printed_only_with_every_checkpoint(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = StatusLine(LineKind.CHECKPOINT, "checkpoint 1", {"quiet": True})
    for more, lines in ([], 0), (["--every-checkpoint"], 1):
        printer(build_parser().parse_args(["run", "job.py:job", "--root", "root", *flags, *more]))(quiet)
        printed = capsys.readouterr().out.splitlines()
        assert ["checkpoint 1" in line for line in printed] == [True] * lines
