"""Rules of docs/protocol.md as the page states them, and citations of rules in code and tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.docs.examples import ROOT

PAGE = ROOT / "docs" / "protocol.md"
PACKAGE = ROOT / "airflow_provider_ckpt"
TESTS = ROOT / "tests"
KEPT, PROVED, OPEN = "Kept by: ", "Proved by: ", "Not built yet: "

_HEADING = re.compile(r"^## R(?P<number>\d+)\. (?P<statement>.+)$", re.MULTILINE)
_RULE = re.compile(r"\bR(\d{1,2})\b")
_NUMBERED = re.compile(r"test_((?:r\d+_)+)")


@dataclass(frozen=True)
class Rule:
    """Rule of the page.

    ``kept``: files below the package. ``proved``: tests as ``<file>::<function>``. ``mutants``: ids.
    """

    number: int
    statement: str
    text: str
    kept: tuple[str, ...]
    proved: tuple[str, ...]
    mutants: tuple[str, ...]
    is_open: bool


@dataclass(frozen=True)
class Citation:
    where: str
    number: int


def rules(page: str) -> list[Rule]:
    headings = list(_HEADING.finditer(page))
    ends = [heading.start() for heading in headings[1:]] + [len(page)]
    return [_rule(heading, page[heading.end() : end]) for heading, end in zip(headings, ends, strict=True)]


def _rule(heading: re.Match[str], text: str) -> Rule:
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")]
    proved = _named(paragraphs, PROVED)
    return Rule(
        number=int(heading["number"]),
        statement=heading["statement"],
        text=text,
        kept=_named(paragraphs, KEPT),
        proved=tuple(name for name in proved if not name.startswith("mutant:")),
        mutants=tuple(name.removeprefix("mutant:") for name in proved if name.startswith("mutant:")),
        is_open=any(paragraph.startswith(OPEN) for paragraph in paragraphs),
    )


def _named(paragraphs: list[str], label: str) -> tuple[str, ...]:
    """Return the names in the only paragraph with this label, which must be a plain list of names."""
    matching = [paragraph.removeprefix(label) for paragraph in paragraphs if paragraph.startswith(label)]
    if not matching:
        return ()
    (listed,) = matching
    names = listed.split(", ")
    wrong = [name for name in names if not re.fullmatch(r"`[^`]+`", name)]
    assert not wrong, f"{label}: a comma, a space and names in backquotes, not {wrong}"
    return tuple(name.strip("`") for name in names)


@cache
def sources(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.rglob("*.py")))


def citations(text: str, where: str) -> list[Citation]:
    return [
        Citation(f"{where}:{line}", int(number))
        for line, words in enumerate(text.splitlines(), 1)
        for number in _RULE.findall(words)
    ]


def cited_by(text: str) -> frozenset[int]:
    return frozenset(citation.number for citation in citations(text, ""))


@cache
def named_tests(path: Path) -> tuple[str, ...]:
    """Return the test functions of a file, with those in classes, without running it."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return tuple(
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def numbers_of(test: str) -> frozenset[int]:
    """Return the rule numbers of a test's name: 9 and 12 for ``test_r9_r12_...``."""
    carried = _NUMBERED.match(test)
    return frozenset() if carried is None else frozenset(map(int, re.findall(r"\d+", carried[1])))


def shown_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of every string that is no docstring. All texts shown to users are among them."""
    tree = ast.parse(source)
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
