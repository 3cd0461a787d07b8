"""Tables of the pages that are generated, and the text of such a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.docs.examples import ROOT


class GeneratedTables:
    """The tables between ``<!-- <kind>: <name> -->`` and ``<!-- end of <kind> -->``. ``made``: name → its function."""

    def __init__(self, kind: str, made: Mapping[str, Callable[[], str]]) -> None:
        self.made = made
        self._place = re.compile(rf"(<!-- {kind}: (?P<name>.+?) -->\n).*?(<!-- end of {kind} -->)", re.DOTALL)

    def names(self, page: str) -> list[str]:
        return [match["name"] for match in self._place.finditer(page)]

    def renewed(self, page: str) -> str:
        """Return the text of a page with its tables generated again."""
        return self._place.sub(lambda match: f"{match[1]}{self.made[match['name']]()}{match[3]}", page)

    def pages(self) -> list[Path]:
        return [path for path in sorted((ROOT / "docs").glob("*.md")) if self.names(path.read_text("utf-8"))]

    def shown(self) -> list[str]:
        """Return the names of the tables on all pages, sorted."""
        return sorted(name for page in self.pages() for name in self.names(page.read_text("utf-8")))

    def write(self) -> None:
        for path in self.pages():
            path.write_text(self.renewed(path.read_text("utf-8")), encoding="utf-8")


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
