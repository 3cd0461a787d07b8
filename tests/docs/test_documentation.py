"""Code and commands in README.md and docs/ work as they are printed."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from airflow_provider_ckpt.cli import build_parser
from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.subtasklog.records import Record
from tests.docs.examples import ROOT, Block, blocks, ckpt_commands, pages, run_page


def _id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _marks(page: Path) -> list[pytest.MarkDecorator]:
    needed = {block.value for block in blocks(page.read_text("utf-8")) if block.kind == "runnable"}
    return [mark for name, mark in (("spark", pytest.mark.spark), ("airflow", pytest.mark.airflow)) if name in needed]


RUNNABLE = [
    pytest.param(page, marks=_marks(page), id=_id(page))
    for page in pages()
    if any(block.kind for block in blocks(page.read_text("utf-8")))
]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    assert run_page(page.read_text("utf-8"), tmp_path) > 0


@pytest.mark.parametrize("page", pages(), ids=_id)
def test_every_python_block_can_be_parsed(page: Path) -> None:
    for block in blocks(page.read_text("utf-8")):
        if block.language == "python":
            ast.parse(block.code, f"{_id(page)}:{block.line}")


@pytest.mark.parametrize("page", pages(), ids=_id)
def test_every_ckpt_command_has_only_options_that_exist(page: Path) -> None:
    refused = [
        f"{_id(page)}:{line}: ckpt {' '.join(words)}"
        for line, words in ckpt_commands(page.read_text("utf-8"))
        if not _is_accepted(words)
    ]
    assert refused == []


def _is_accepted(words: list[str]) -> bool:
    try:
        build_parser().parse_args(words)
    except SystemExit as leaving:
        return leaving.code == 0  # exit of --help
    return True


def test_a_command_with_an_unknown_option_is_noticed() -> None:
    assert _is_accepted(["jobs", "--root", "r"])
    assert not _is_accepted(["jobs", "--roots", "r"])


@pytest.mark.parametrize("page", [*pages(), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=_id)
def test_every_relative_link_has_a_target(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{_id(page)} links to {target}"


@pytest.mark.parametrize("language", ["python", "sh"])
def test_an_example_that_fails_is_noticed(language: str, tmp_path: Path) -> None:
    code = "raise SystemExit(3)" if language == "python" else "exit 3"
    with pytest.raises(AssertionError, match="exited with 3"):
        run_page(f"text\n<!-- runnable -->\n```{language}\n{code}\n```\n", tmp_path)


def test_a_refused_job_on_a_page_is_noticed(tmp_path: Path) -> None:
    page = "<!-- file: j.py -->\n```python\nfrom airflow_provider_ckpt import Job\njob = Job('empty')\n```\n"
    with pytest.raises(AssertionError, match="InvalidJobError"):
        run_page(page, tmp_path)


def test_later_blocks_see_the_files_of_earlier_blocks(tmp_path: Path) -> None:
    page = "<!-- file: a/b.txt -->\n```text\nhello\n```\n<!-- runnable -->\n```sh\ngrep hello a/b.txt\n```\n"
    assert run_page(page, tmp_path) == 2


def test_commands_are_found_over_several_lines_and_after_variables() -> None:
    page = "```sh\n# comment\nA_B='{}' ckpt show x \\\n  --root r  # why\nls\n$ ckpt jobs --root r\n```\n"
    assert [words for _, words in ckpt_commands(page)] == [
        ["show", "x", "--root", "r"],
        ["jobs", "--root", "r"],
    ]


def test_a_block_without_a_marker_is_not_run() -> None:
    assert blocks("a\n\n```python\nx\n```\n") == [Block("python", "x\n", 3, None, None)]


@pytest.mark.parametrize("kind", [*get_args(Event), *get_args(Record)], ids=lambda kind: kind.__name__)
def test_the_format_page_lists_every_event_and_record(kind: type) -> None:
    assert f"\n| `{kind.__name__}` |" in (ROOT / "docs" / "format.md").read_text("utf-8")
