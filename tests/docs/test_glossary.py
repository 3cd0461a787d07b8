"""The glossary in docs/concepts.md has each word of the project once, with a short meaning."""

from __future__ import annotations

import re

import pytest

from tests.docs.examples import ROOT

GLOSSARY = re.compile(r"^## Glossary\n(.*?)^## ", re.DOTALL | re.MULTILINE)
LISTED = (
    "driver, JobMaster, worker, epoch, attempt, subtask, vertex, channel, stage, prepare, publish, complete, release, "
    "retain, discard, pause, resume, restart, restore, restart from scratch, claim, fence, take over, finished, ended, "
    "request, outcome, change, reconfigure, rescale, upgrade, dry run, poll, report, command, status line, checkpoint, "
    "savepoint, journal, operator, split"
)
WORDS = LISTED.split(", ")


def meanings(page: str) -> dict[str, str]:
    """Return word -> meaning. Fail if the glossary has a word twice."""
    (section,) = GLOSSARY.findall(page)
    glossary: dict[str, str] = {}
    for words, meaning in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE):
        for word in words.split(", "):
            assert word == "word" or word not in glossary, f"{word} is listed twice"
            glossary[word] = meaning
    return glossary


def _page() -> str:
    return (ROOT / "docs" / "concepts.md").read_text("utf-8")


@pytest.mark.parametrize("word", WORDS)
def test_the_glossary_has_the_word(word: str) -> None:
    assert 0 < len(meanings(_page())[word].split()) <= 30


def test_the_glossary_has_numbered_barriers() -> None:
    assert "barrier *n*" in meanings(_page())


def test_a_word_that_is_listed_twice_is_noticed() -> None:
    page = "## Glossary\n\n| word | meaning |\n|---|---|\n| poll | check |\n| poll | ask |\n\n## Next\n"
    with pytest.raises(AssertionError, match="poll is listed twice"):
        meanings(page)
