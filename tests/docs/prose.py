"""Counter of stilted prose: words and beginnings that CONTRIBUTING.md advises against.

Run ``python -m tests.docs.prose PATH …`` to list each place in files or folders.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

MARKERS = {
    "tell, say, hear": r"tells?|telling|told|says?|saying|said|hears?|heard",
    "look at": r"look(?:s|ed|ing)? (?:at|into)",
    "go on": r"(?:go|goes|going|went|gone) on",
    "stand still": r"(?:stands?|standing|stood) still",
    "anew": r"anew",
    "behind": r"behind",
    "beside": r"beside",
    "yet": r"(?<!not )(?<!n't )yet",
    "no more, any more": r"(?:no|any) more(?! than)",
    "come to": r"(?:come|comes|came|coming) to",
    "of now, of then": r"of (?:now|then)",
    "is to be": r"(?:is|are|was|were) (?:not )?to be",
    "nobody": r"whoever|nobody|somebody|who (?:is|has|comes|asks|goes|runs|reads)",
    "one that": r"(?:one|those|that) (?:that|which|who|of)",
    "what-clause": r"what (?!is\b|does\b|to\b|happens\b|are\b)\w+",
}
STILTED = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in MARKERS.values()), re.IGNORECASE)
WITHOUT_SUBJECT = re.compile(r"(?:Of|What|Who|As|By|In|With|Behind|Those|The same|Such)\b|None:")
_WORD = re.compile(r"\b[\w'-]+\b")
_CODE = re.compile(r"``[^`]*``|`[^`]*`")
_TARGET = re.compile(r"\]\([^)]*\)|<!--.*?-->")


@dataclass(frozen=True)
class Passage:
    """A docstring, a comment, a message, or a paragraph of a page."""

    line: int
    text: str
    is_docstring: bool = False

    @property
    def words(self) -> int:
        """Return the number of words."""
        return len(_WORD.findall(self.text))

    @property
    def stilted(self) -> list[str]:
        """Return the words that have a plain form."""
        return STILTED.findall(self.text)

    @property
    def begins_without_subject(self) -> bool:
        """Return whether a docstring begins with a preposition or a pronoun."""
        return self.is_docstring and WITHOUT_SUBJECT.match(self.text) is not None


@dataclass(frozen=True)
class Count:
    """Counts of some passages."""

    words: int
    stilted: int
    without_subject: int

    @property
    def per_thousand(self) -> float:
        """Return stilted words in 1,000 words."""
        return 1000 * self.stilted / max(1, self.words)


def count(passages: Iterable[Passage]) -> Count:
    """Count words, stilted words and docstrings without a subject."""
    every = list(passages)
    return Count(
        sum(passage.words for passage in every),
        sum(len(passage.stilted) for passage in every),
        sum(passage.begins_without_subject for passage in every),
    )


def of_file(path: Path, *, messages: bool = False) -> list[Passage]:
    """Return the prose of a Python file or a Markdown page, or an empty list for another file."""
    if path.suffix == ".py":
        return [*of_python(path.read_text("utf-8"), messages=messages)]
    return [*of_markdown(path.read_text("utf-8"))] if path.suffix == ".md" else []


def of_python(source: str, *, messages: bool = False) -> Iterator[Passage]:
    """Yield docstrings and comments or, if ``messages`` is set, other strings of at least four words."""
    tree = ast.parse(source)
    docstrings = {id(node): node for node in _docstrings(tree)}
    if messages:
        for node in ast.walk(tree):
            if id(node) not in docstrings and isinstance(node, ast.Constant) and isinstance(node.value, str):
                passage = _passage(node.lineno, node.value)
                if passage.words >= 4:
                    yield passage
        return
    for node in docstrings.values():
        yield _passage(node.lineno, str(node.value), is_docstring=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield _passage(token.start[0], token.string.lstrip("#"))


def of_markdown(page: str) -> Iterator[Passage]:
    """Yield paragraphs and rows of tables. Blocks of code are left out."""
    fenced = False
    paragraph: list[str] = []
    begins = 1
    for number, line in enumerate([*page.splitlines(), ""], 1):
        is_fence = line.lstrip().startswith("```")
        fenced ^= is_fence
        if is_fence or not line.strip() or line.startswith(("|", "#")):
            if paragraph:
                yield _passage(begins, " ".join(paragraph))
            paragraph = []
            if line.startswith(("|", "#")) and not fenced:
                yield _passage(number, line)
        elif not fenced:
            begins = begins if paragraph else number
            paragraph.append(line)


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def _passage(line: int, text: str, *, is_docstring: bool = False) -> Passage:
    plain = _TARGET.sub("]", _CODE.sub("x", text))
    return Passage(line, " ".join(plain.split()), is_docstring)


def main(names: list[str]) -> None:
    """Print each place in files and folders, and their counts."""
    for name in names:
        folder = Path(name)
        every = []
        for path in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
            passages = of_file(path)
            every += passages
            for passage in passages:
                if passage.stilted or passage.begins_without_subject:
                    print(f"{path}:{passage.line}: {passage.stilted or 'no subject'}: {passage.text}")
        total = count(every)
        print(f"{name}: {total.per_thousand:.1f} in 1,000 of {total.words} words, {total.without_subject} no subject")


if __name__ == "__main__":
    main(sys.argv[1:])
