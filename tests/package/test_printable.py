"""Control characters are shown escaped in errors, tables, logs and XComs."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.error_cause import cause_first
from airflow_provider_ckpt.printable import each_text, one_line, printable, without_colours

texts = st.text(st.characters(exclude_categories=[]))


@given(texts)
def test_printable_text_can_be_encoded_and_controls_no_terminal(text: str) -> None:
    shown = one_line(text)
    shown.encode()
    assert len(shown.splitlines()) <= 1
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    assert printable(text).replace("\n", "\\n").replace("\t", "\\t") == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, Größe, 数据, 🚀", "plain, Größe, 数据, 🚀"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("one\ntwo\r\n\x85three\u2028four", "one\\ntwo\\r\\n\\x85three\\u2028four"),
        ("half \ud800", "half \\ud800"),
        ("admin\u202etxt.exe", "admin\\u202etxt.exe"),
    ],
)
def test_one_line_escapes_line_ends_and_control_characters(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_colours_of_a_library_are_removed() -> None:
    assert without_colours("\x1b[31mError\x1b[0m: no \x1b[1;33mtable") == "Error: no table"


def test_each_text_changes_every_text_of_a_value() -> None:
    assert each_text({"a\n": ["b\n", ("c\n",), 1, None]}, one_line) == {"a\\n": ["b\\n", ["c\\n"], 1, None]}


def test_an_error_escapes_control_characters_and_keeps_its_data() -> None:
    error = CkptError(message="bad value \x1b[2J \ud800\nsecond line")
    assert str(error) == "bad value \\x1b[2J \\ud800\nsecond line"
    assert error.data == {"message": "bad value \x1b[2J \ud800\nsecond line"}
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_cause_is_one_line_without_control_characters() -> None:
    assert cause_first("ValueError: \x1b[2Jx\ry") == "ValueError: \\x1b[2Jx\\ry"
    assert cause_first("Traceback (most recent call last):\nValueError: \x1b[2J") == "ValueError: \\x1b[2J"
