"""Numbers and commands in messages."""

from __future__ import annotations

import shlex

import pytest

from airflow_provider_ckpt.model.words import ckpt_command, counted, release_command, run_command, were


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (2, "row", "2 rows"),
        (1, "more file", "1 more file"),
        (3, "batch", "3 batches"),
        (2, "query", "2 queries"),
        (2, "key", "2 keys"),
    ],
)
def test_a_noun_agrees_with_its_number(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


def test_a_verb_agrees_with_its_number() -> None:
    assert [were(number) for number in (0, 1, 2)] == ["were", "was", "were"]


def test_a_command_is_quoted_for_a_shell() -> None:
    root = "/lake of jobs/ckpt"
    assert shlex.split(ckpt_command("stop", "a~b", root=root)) == ["ckpt", "stop", "a~b", "--root", root]
    assert release_command("orders", "s3://lake") == "ckpt release orders FILE.py:JOB --root s3://lake"
    assert run_command("plan", "j", "/r", "o.py:job") == "ckpt plan o.py:job --job-id j --root /r"
