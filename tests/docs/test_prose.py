"""Ratchet for the language: the share of stilted words in each folder and on each page does not rise.

When a folder or page has become better, lower its limit here, or delete its exception.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.examples import ROOT
from tests.docs.prose import MARKERS, Count, Passage, count, of_file, of_markdown, of_python

PACKAGE = ROOT / "airflow_provider_ckpt"
TESTS = ROOT / "tests"
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md"), *ROOT.glob("dags_examples/*.md")]
)

LIMIT = 5.0
"""Stilted words in 1,000 words, for all that has no exception."""
EXCEPTIONS: dict[str, float] = {}
"""Folder or page, as in the ids of the tests -> its own limit."""
LIMIT_OF_MESSAGES = 6.0
"""For errors, log lines and help texts of the package."""
WITHOUT_SUBJECT = 0


def _folders(top: Path) -> list[Path]:
    """Return a folder and the folders in it that hold Python files."""
    return [top, *sorted(path for path in top.iterdir() if path.is_dir() and any(path.rglob("*.py")))]


def _files(folder: Path) -> list[Path]:
    """Return the Python files of a folder and, unless it is the package or tests itself, of the folders below it."""
    return sorted(folder.glob("*.py") if folder in (PACKAGE, TESTS) else folder.rglob("*.py"))


def _id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _limit(path: Path) -> float:
    return EXCEPTIONS.get(_id(path), LIMIT)


def _places(passages: dict[str, list[Passage]]) -> str:
    return "\n".join(
        f"{name}:{passage.line}: {', '.join(passage.stilted) or 'no subject'}: {passage.text[:150]}"
        for name, every in passages.items()
        for passage in every
        if passage.stilted or passage.begins_without_subject
    )


def _check(files: list[Path], limit: float, *, messages: bool = False) -> Count:
    passages = {_id(path): of_file(path, messages=messages) for path in files}
    counted = count(passage for every in passages.values() for passage in every)
    assert counted.per_thousand <= limit, f"{counted.per_thousand:.1f} in 1,000 words\n{_places(passages)}"
    assert counted.without_subject <= WITHOUT_SUBJECT, _places(passages)
    return counted


@pytest.mark.parametrize("folder", [*_folders(PACKAGE), *_folders(TESTS)], ids=_id)
def test_docstrings_and_comments_of_a_folder_are_plain(folder: Path) -> None:
    _check(_files(folder), _limit(folder))


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_a_page_is_plain(page: Path) -> None:
    _check([page], _limit(page))


def test_texts_of_the_command_line_are_plain() -> None:
    assert _check(_files(PACKAGE / "cli"), LIMIT, messages=True).words > 1000


def test_messages_of_the_package_are_plain() -> None:
    assert _check(sorted(PACKAGE.rglob("*.py")), LIMIT_OF_MESSAGES, messages=True).words > 10_000


def test_each_exception_names_an_existing_place_above_the_limit() -> None:
    assert [name for name, limit in EXCEPTIONS.items() if not (ROOT / name).exists() or limit <= LIMIT] == []


PLANTED = {
    "tell, say, hear": "The journal tells it.",
    "look at": "The driver looks at the log.",
    "go on": "The job goes on.",
    "stand still": "The query stands still.",
    "anew": "The job begins anew.",
    "behind": "Rows behind the barrier.",
    "beside": "A folder beside the table.",
    "yet": "The file is there yet.",
    "no more, any more": "It is read no more.",
    "come to": "The reader comes to the end.",
    "of now, of then": "The plan of now.",
    "is to be": "The task is to be stopped.",
    "nobody": "Nobody reads it.",
    "one that": "The folder is one that Spark wrote.",
    "what-clause": "Delete what lies there.",
}


@pytest.mark.parametrize("marker", MARKERS)
def test_a_planted_marker_is_found_once_in_each_kind_of_text(marker: str) -> None:
    text = PLANTED[marker]
    assert [len(passage.stilted) for passage in of_markdown(f"# Page\n\n{text}\n")] == [0, 1]
    assert count(of_python(f'"""Page.\n\n{text}\n"""\n')).stilted == 1
    assert count(of_python(f"x = 1  # {text}\n")).stilted == 1
    assert count(of_python(f"x = 'Here: {text}'\n")).stilted == 0
    assert count(of_python(f"x = 'Here: {text}'\n", messages=True)).stilted == 1


@pytest.mark.parametrize(
    "docstring", ["Of an attempt.", "What a job reads.", "The same, of a block.", "Those that run.", "None: no job."]
)
def test_a_docstring_without_a_subject_is_found(docstring: str) -> None:
    assert count(of_python(f'def x():\n    """{docstring}"""\n')).without_subject == 1


def test_plain_text_code_and_addresses_have_no_markers() -> None:
    page = "Return the log. `tells` [rows](what-was.md#nobody-reads)\n\n```sh\nsay behind\n```\n\nIt is not yet done.\n"
    assert [passage.stilted for passage in of_markdown(page)] == [[], []]
    assert count(of_python('"""Return the name, and what to read."""\n')) == Count(7, 0, 0)


def test_a_marker_across_two_lines_of_a_page_is_found() -> None:
    assert [passage.stilted for passage in of_markdown("The job goes\non.\n| a |\n| it goes on |\n")] == [
        ["goes on"],
        [],
        ["goes on"],
    ]


def test_a_count_above_the_limit_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.docs.test_prose.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("word " * 999 + "anew\n")
    _check([page], 1.0)
    with pytest.raises(AssertionError, match=r"page.md:1: anew"):
        _check([page], 0.9)
