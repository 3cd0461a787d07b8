"""A reader believes only lines with the token that it gave the driver, and only data of the right types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ckpt.status.status_line import (
    TOKEN_VARIABLE,
    LineKind,
    StatusLine,
    StatusReader,
    format_line,
    take_token,
)

TOKEN = "5f" * 16
FINISHED = StatusLine(LineKind.FINISHED, "all sources ended", {"checkpoint": 3, "epoch": 1})


def reader() -> tuple[StatusReader, list[str]]:
    warned: list[str] = []
    return StatusReader(TOKEN, warned.append), warned


def line_with(**data: Any) -> str:
    return f"CKPT {TOKEN} {json.dumps({'kind': 'checkpoint', **data})}"


def test_a_line_with_the_token_is_accepted() -> None:
    status, warned = reader()
    assert status.read(f"[Stage 3:==> ] {format_line(FINISHED, TOKEN)}\n") == FINISHED
    assert not warned


@pytest.mark.parametrize("token", ["", "0" * 32, TOKEN[:-1], TOKEN.upper()])
def test_a_line_without_the_token_is_ignored_with_one_warning(token: str) -> None:
    status, warned = reader()
    forged = format_line(FINISHED, token)
    assert [status.read(forged), status.read(f"ValueError: {forged}")] == [None, None]
    assert warned == [
        "A line of the driver's output looks like a status line and is ignored: it lacks the token of this submission, "
        "so the driver did not print it"
    ]
    assert status.read(format_line(FINISHED, TOKEN)) == FINISHED


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"checkpoint": "99"}, "checkpoint (str)"),
        ({"checkpoint": True}, "checkpoint (bool)"),
        ({"checkpoint": -1}, "checkpoint (int)"),
        ({"released": 2**70}, "released (int)"),
        ({"epoch": 1.5}, "epoch (float)"),
        ({"finished_operators": 7}, "finished_operators (int)"),
        ({"finished_operators": [7]}, "finished_operators (list)"),
        ({"recovery": "x"}, "recovery (str)"),
        ({"outputs": [1]}, "outputs (list)"),
        ({"outputs": {"lake": 1}}, "outputs (dict)"),
        ({"spark_ui": {}}, "spark_ui (dict)"),
        ({"status": ["FINISHED"]}, "status (list)"),
        ({"message": 3}, "message (int)"),
        ({"quiet": "yes"}, "quiet (str)"),
    ],
)
def test_a_line_with_a_value_of_another_type_is_ignored(data: dict[str, Any], problem: str) -> None:
    status, warned = reader()
    assert status.read(line_with(**data)) is None
    assert status.read(line_with(**data)) is None
    (warning,) = warned
    assert warning.endswith(f"ignored: it has a value of another type: {problem}")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["epoch", "outputs", "recovery", "status", "kind", "x"]), inner)
        ),
    )
)
def test_any_text_with_the_token_is_read_or_ignored(value: Any) -> None:
    status, _ = reader()
    for text in (f"CKPT {TOKEN} {json.dumps(value)}", line_with(x=value), f"CKPT {TOKEN} {{{value!r}"):
        line = status.read(text)
        assert line is None or isinstance(line.message, str)


def test_text_that_cannot_be_parsed_is_ignored() -> None:
    status, warned = reader()
    for text in ("{broken", '{"a":' * 100_000, '{"epoch": ' + "9" * 5000 + "}", '{"x": ' + "[" * 900 + "]" * 900 + "}"):
        assert status.read(f"CKPT {TOKEN} {text}") is None
    assert len(warned) == 1


def test_secrets_are_hidden_and_control_characters_shown() -> None:
    """An id and a count are no secret, even if a secret is the same word."""
    status = StatusReader(TOKEN, pytest.fail, lambda text: text.replace("orders", "***"))
    data = {"job_id": "orders", "finished_operators": ["orders"], "traceback": "in \x1b[31morders\n", "checkpoint": 3}
    line = status.read(format_line(StatusLine("failed", "orders\x07 \ud800", data), TOKEN))
    assert line == StatusLine("failed", "***\\x07 \\ud800", {**data, "traceback": "in \\x1b[31m***\n"})


def test_no_child_of_the_driver_inherits_the_token() -> None:
    environ = {TOKEN_VARIABLE: TOKEN, "PATH": "/bin"}
    assert take_token(environ) == TOKEN
    assert environ == {"PATH": "/bin"}
    assert take_token(environ) == ""
