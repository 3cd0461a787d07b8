"""Suggestions for mistyped commands and options."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.cli import main

RUN = ["run", "job.py:job", "--root", "r"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["rum", "job.py:job"], "ckpt: error: there is no command 'rum'; did you mean run?"),
        (["frobnicate"], "ckpt: error: there is no command 'frobnicate'; the commands are run, check, plan,"),
        (
            [*RUN, "--max-byte-per-triger", "1m"],
            "ckpt run: error: there is no option --max-byte-per-triger; did you mean --max-bytes-per-trigger?",
        ),
        (["run", "job.py:job", "--rot", "r"], "ckpt run: error: there is no option --rot; did you mean --root?"),
        ([*RUN, "--checkpoint-intervall=5s"], "no option --checkpoint-intervall; did you mean --checkpoint-interval?"),
        (["stop", "j", "--root", "r", "--wat"], "ckpt stop: error: there is no option --wat; did you mean --wait?"),
        (
            [*RUN, "--discard-timers"],
            "there is no option --discard-timers; these commands have it: drain; `ckpt run --help` lists the options",
        ),
    ],
)
def test_a_mistyped_word_is_refused_with_a_suggestion(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--root={}"], ["--del", "--root", "{}"]], ids=["equals sign", "beginning"])
def test_abbreviated_options_are_accepted(words: list[str], empty_root: str) -> None:
    assert main(["jobs", *(word.format(empty_root) for word in words)]) == 0
