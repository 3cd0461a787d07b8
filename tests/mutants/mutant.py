"""A deliberate defect, the place that it changes, and the tests that must notice it.

A place is addressed by symbol, so that moving a file or reformatting a function leaves the catalogue as it is.
"""

from __future__ import annotations

import ast
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider_ckpt"


class StaleMutantError(Exception):
    """The source has changed and the catalogue has not."""


@dataclass(frozen=True)
class Symbol:
    """A module, class, function or assigned name in the source.

    ``module``: its path below the package with dots (``storage.local``). ``first`` and ``last``: line numbers from 1.
    """

    file: Path
    module: str
    name: str
    first: int
    last: int

    def lines(self) -> list[str]:
        """Return the lines of the whole file, and an empty one at the end."""
        return [*self.file.read_text().splitlines(keepends=True), ""]

    def indent(self, lines: list[str]) -> str:
        """Return the indentation of the symbol's first line; a module has none."""
        return lines[self.first - 1][: -len(lines[self.first - 1].lstrip())] if self.name else ""

    def matches(self, address: str) -> bool:
        module, colon, name = address.rpartition(":")
        return name == self.name and (not colon or f".{self.module}".endswith(f".{module}"))


@dataclass(frozen=True)
class Place:
    """The only place of a mutant's old text: lines ``first`` to ``last`` of the file, from ``column`` of the first one
    to ``end`` of the last one. Columns are counted without the indentation of the symbol."""

    symbol: Symbol
    first: int
    column: int
    last: int
    end: int

    @property
    def lines(self) -> range:
        return range(self.first, self.last + (self.end > 0))


@dataclass(frozen=True)
class Mutant:
    """One defect.

    Args:
        symbol: ``Class.method``, ``function`` or an assigned name; ``module:`` is the module's own level. Where several
            modules have the name, ``module:name`` chooses one. A module is its file's name, with folders if needed
            (``storage.local:name``).
        old: Source text that occurs once in the symbol, written as if the symbol began in column 0.
        new: Text that takes its place.
        rule: Number in docs/protocol.md ("R4"); "-" for none.
        tests: Pytest paths or ids. At least one must fail.
        why: The fault of a job with this defect.
        hangs: True if the job stops making progress, so that a test that times out has noticed the defect.
    """

    id: str
    rule: str
    symbol: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str
    hangs: bool = False

    def place(self, root: Path = ROOT) -> Place:
        """Return the only place that has the old text.

        Raises:
            StaleMutantError: No symbol has the name, several modules have it, or the text does not occur exactly once.
        """
        symbols = [
            symbol for symbol in _symbols(root).get(self.symbol.rpartition(":")[2], ()) if symbol.matches(self.symbol)
        ]
        if not symbols:
            raise StaleMutantError(f"{self.id}: nothing in {PACKAGE} is called {self.symbol!r}")
        if len({symbol.file for symbol in symbols}) > 1:
            modules = ", ".join(sorted(symbol.module for symbol in symbols))
            raise StaleMutantError(f"{self.id}: {self.symbol!r} is in several modules, put one in front: {modules}")
        places = [place for symbol in symbols for place in _places(symbol, self.old)]
        if len(places) != 1:
            raise StaleMutantError(
                f"{self.id}: {self.symbol!r} has this text {len(places)} times, not once: {self.old!r}"
            )
        return places[0]

    def path(self, root: Path = ROOT) -> Path:
        return self.place(root).symbol.file

    def mutated(self, root: Path = ROOT) -> str:
        """Return the whole source file with the defect.

        Raises:
            StaleMutantError: As :meth:`place`.
        """
        place = self.place(root)
        lines = place.symbol.lines()
        indent = place.symbol.indent(lines)
        touched = [line.removeprefix(indent) for line in lines[place.first - 1 : place.last]]
        changed = touched[0][: place.column] + self.new + touched[-1][place.end :]
        lines[place.first - 1 : place.last] = [textwrap.indent(changed, indent)]
        return "".join(lines)


def _places(symbol: Symbol, old: str) -> Iterator[Place]:
    lines = symbol.lines()
    indent = symbol.indent(lines)
    segment = "".join(line.removeprefix(indent) for line in lines[symbol.first - 1 : symbol.last])
    start = segment.find(old)
    while start >= 0:
        end = start + len(old)
        yield Place(
            symbol,
            symbol.first + segment.count("\n", 0, start),
            start - (segment.rfind("\n", 0, start) + 1),
            symbol.first + segment.count("\n", 0, end),
            end - (segment.rfind("\n", 0, end) + 1),
        )
        start = segment.find(old, start + 1)


@cache
def _symbols(root: Path) -> Mapping[str, tuple[Symbol, ...]]:
    """Return every symbol of the package by its name; a module's name is empty."""
    by_name: dict[str, list[Symbol]] = defaultdict(list)
    for file in sorted((root / PACKAGE).rglob("*.py")):
        source = file.read_text()
        module = ".".join(file.relative_to(root / PACKAGE).with_suffix("").parts)
        by_name[""].append(Symbol(file, module, "", 1, source.count("\n") + 1))
        for name, first, last in _defined(ast.parse(source).body, ""):
            by_name[name].append(Symbol(file, module, name, first, last))
    return {name: tuple(symbols) for name, symbols in by_name.items()}


def _defined(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, int, int]]:
    """Yield name, first and last line of everything that is defined in the body, at any depth."""
    for node in body:
        for name in _names(node):
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
            yield f"{prefix}{name}", first, node.end_lineno or node.lineno
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _defined(node.body, f"{prefix}{node.name}.")


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]
