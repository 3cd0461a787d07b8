"""Storage options: their origins, their parsing, and that no output shows them."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.cli import build_parser, main
from airflow_provider_ckpt.cli.arguments import storage_options

SECRET = "hunter2"


def _options(*words: str, variable: str = "") -> dict[str, object]:
    args = build_parser().parse_args(["jobs", "--root", "r", *words])
    return storage_options(args, {"CKPT_STORAGE_OPTIONS": variable})


def test_command_line_options_override_the_environment() -> None:
    assert _options("--storage-option", "key=b", variable='{"key": "a", "anon": false}') == {
        "key": "b",
        "anon": False,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("null", None),
        ('{"region_name": "eu-1"}', {"region_name": "eu-1"}),
        ("[1, 2]", [1, 2]),
        ("007", "007"),
        ("{not json", "{not json"),
        ("a=b=", "a=b="),
        ("", ""),
    ],
)
def test_option_values_are_parsed_as_json_or_text(text: str, value: object) -> None:
    assert _options("--storage-option", f"k={text}") == {"k": value}


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        (["--storage-option", SECRET], ""),
        (["--storage-option", f"={SECRET}"], ""),
        ([], f'{{"secret": "{SECRET}"'),
        ([], f'["{SECRET}"]'),
    ],
)
def test_a_refusal_does_not_show_the_value(
    words: list[str],
    variable: str,
    empty_root: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CKPT_STORAGE_OPTIONS", variable)
    assert main(["jobs", "--root", empty_root, *words]) == 2
    out, err = capsys.readouterr()
    assert SECRET not in out + err
    assert "ckpt: error:" in err
