"""Exit codes of a process, and how its supervisor interprets them."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.errors import InvalidInputError, OvertakenError, TerminalError, TransientError
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.status.exit_code import ExitCode, is_for_good


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (JobStatus.FINISHED, 0),
        (JobStatus.STOPPED, 0),
        (JobStatus.RESTARTING, 1),
        (JobStatus.FAILED, 3),
    ],
)
def test_a_run_ends_with_the_exit_code_of_its_status(status: JobStatus, code: int) -> None:
    assert ExitCode.of_run(status) == code


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (TransientError(message="x"), 1, "failed"),
        (ValueError("of a sink"), 1, "failed"),
        (InvalidInputError(message="x"), 2, "refused"),
        (TerminalError(message="x"), 3, "failed"),
        (OvertakenError(message="x"), 4, "fenced"),
    ],
)
def test_each_error_has_one_exit_code_and_one_kind_of_line(error: Exception, code: int, kind: str) -> None:
    exit_code = ExitCode.of_error(error)
    assert (exit_code, exit_code.line_kind) == (code, kind)
    assert is_for_good(code, kind) == (code > 1)


def test_a_driver_that_failed_over_its_input_is_not_retried() -> None:
    assert is_for_good(2, "failed")


@pytest.mark.parametrize(
    ("code", "kind"), [(3, "running"), (3, "refused"), (1, "failed"), (4, "failed"), (137, "failed"), (None, "failed")]
)
def test_an_exit_code_without_its_status_line_is_not_final(code: int | None, kind: str) -> None:
    assert not is_for_good(code, kind)


def test_the_command_line_has_three_exit_codes() -> None:
    drivers = [ExitCode.FINISHED, ExitCode.FAILED, ExitCode.REFUSED, ExitCode.TERMINAL, ExitCode.FENCED]
    assert [code.coarse for code in drivers] == [0, 1, 2, 1, 1]
