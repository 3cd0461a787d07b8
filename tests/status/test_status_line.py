"""Status lines: a reader reads every line that a driver prints, and takes no other text for a status line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ckpt.status.status_line import LineKind, StatusLine, format_line, parse_line, print_line

ODD = (
    "",
    "two\nlines\r\nand\x85more\u2028of\u2029them\x0b\x0c\x1c\x1d\x1e",
    'CKPT {"kind": "finished"}',
    ' CKPT {"kind": "finished"} ',
    "AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "s3://key:secret@bucket/x?token=abc&password=***",
    'quotes " and \\ backslashes \\" and {braces} and [brackets]',
    "Größe, 数据, 🚀, \ud800 (half a character), \x00",
    "x" * 1_000_000,
    "%s %d {0} {name} ${HOME}",
)
texts = st.one_of(st.sampled_from(ODD), st.text(st.characters(exclude_categories=[])))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)
datas = st.dictionaries(st.text().filter(lambda name: name not in ("kind", "message")), values, max_size=4)
lines = st.builds(StatusLine, st.one_of(st.sampled_from(LineKind), st.text()), texts, datas)
progress = st.sampled_from(["", "[Stage 3:====>   (2 + 1) / 4] ", "26/01/01 INFO x: \t", "CKPT { CKPT {} "])
ends = st.sampled_from(["", "\n", "\r\n", " \n"])


@given(lines, progress, ends)
def test_a_printed_status_line_is_read_back_after_any_prefix(line: StatusLine, before: str, end: str) -> None:
    text = format_line(line)
    assert text.isascii()
    assert len(text.splitlines()) == 1
    assert parse_line(before + text + end) == line


@given(st.one_of(st.text(), st.builds(lambda value: f"CKPT {json.dumps(value)}", values), st.just('CKPT {"a":' * 5000)))
def test_other_output_is_ignored_without_an_error(text: str) -> None:
    line = parse_line(text)
    assert line is None or '"kind"' in text


def test_a_status_line_is_printed_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(StatusLine(LineKind.FAILED, "boom\nbang", {"traceback": "Traceback\n  x\n"}))
    assert capsys.readouterr().out == (
        'CKPT {"kind": "failed", "message": "boom\\nbang", "traceback": "Traceback\\n  x\\n"}\n'
    )


def test_a_value_that_is_no_json_does_not_end_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(StatusLine(LineKind.RELEASED, "released", {"sinks": {1.5}}))
    line = parse_line(capsys.readouterr().out)
    assert line is not None
    assert line.data["sinks"] == "{1.5}"


SECRET = 'p"ss\\wörd'


def redact(text: str) -> str:
    return text.replace(SECRET, "***").replace("123456", "***")


def test_secrets_are_hidden_everywhere_in_a_status_line() -> None:
    """A secret made of digits may also occur in unrelated numbers."""
    data: dict[str, Any] = {"epoch": 1234567, "traceback": f"in {SECRET}", "paths": [{"a": SECRET}, ("x", SECRET)]}
    line = parse_line(format_line(StatusLine(LineKind.FAILED, f"no access with {SECRET}", data)))
    assert line is not None
    shown = line.redacted(redact)
    assert shown.message == "no access with ***"
    assert shown.data == {"epoch": 1234567, "traceback": "in ***", "paths": [{"a": "***"}, ["x", "***"]]}


def test_an_unknown_kind_is_read_as_a_status_line() -> None:
    assert parse_line('CKPT {"kind": "unheard-of", "colour": 1}') == StatusLine(
        "unheard-of", "unheard-of", {"colour": 1}
    )


@pytest.mark.parametrize(
    "line",
    [
        "26/01/01 INFO SparkContext: Running Spark version 4.2.0",
        "CKPT {not json",
        "CKPT {not json}",
        'CKPT {"kind": 7}',
        'CKPT ["finished"]',
        'XCKPT {"kind": "finished"}',
        'CKPT {"kind": "finished"} and more',
        "CKPT finished",
    ],
)
def test_text_that_is_no_status_line_is_ignored(line: str) -> None:
    assert parse_line(line) is None


def test_kinds_of_lines_are_errors_frequent_or_quiet() -> None:
    assert {kind.value for kind in LineKind if StatusLine(kind, "x").went_wrong} == {"failed", "refused", "fenced"}
    assert {kind.value for kind in LineKind if StatusLine(kind, "x").is_frequent} == {
        "checkpoint",
        "released",
        "aborted",
    }
    assert StatusLine("checkpoint", "x", {"quiet": True}).is_quiet
    assert not StatusLine("checkpoint", "x", {"quiet": "yes"}).is_quiet
    assert StatusLine("failed", "x", {"traceback": None}).traceback is None
