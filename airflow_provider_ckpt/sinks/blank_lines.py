"""Rows that would be a blank line of CSV, which Spark leaves out where it reads: they would be lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BLANK_LINE = "CKPT_CSV_BLANK_LINE"
"""What such a row fails with."""
_BLANKS = "".join(map(chr, range(33)))
"""What Spark, as Java, takes for white space."""


def is_blank(text: str) -> bool:
    return not text.strip(_BLANKS)


@dataclass(frozen=True)
class BlankLines:
    """Of files with these columns, whose separator, if there are several, is blank (a tab). ``columns``: whether each
    is a text, by name. ``null``, ``empty``: what stands for a null, and for a text without characters (or with blanks
    alone, where the writer trims), is blank; ``blanks``: a text of blanks is written as it is;
    ``quoted``: unless this is in it."""

    columns: Mapping[str, bool]
    null: bool
    empty: bool
    blanks: bool
    quoted: str

    @property
    def exist(self) -> bool:
        return all(any(True for _ in self._of("", is_text)) for is_text in self.columns.values())

    def refused(self, frame: DataFrame) -> DataFrame:
        """Whoever reads it fails at the first such row."""
        quoted = {name: "`" + name.replace("`", "``") + "`" for name in frame.columns}
        blank = (" OR ".join(self._of(quoted[name], is_text)) for name, is_text in self.columns.items())
        wrong = " AND ".join(f"({one})" for one in blank)
        first = next(iter(self.columns))
        kept = f"CASE WHEN {wrong} THEN raise_error('{BLANK_LINE}') ELSE {quoted[first]} END AS {quoted[first]}"
        return frame.selectExpr(*(kept if name == first else quoted[name] for name in frame.columns))

    def _of(self, column: str, is_text: bool) -> Iterator[str]:
        """When it puts nothing that is not blank in its line."""
        if self.null:
            yield f"{column} IS NULL"
        if not is_text:
            return
        text, blank = f"CAST({column} AS STRING)", r"'^[\\x00-\\x20]*$'"
        if self.empty:
            yield f"{text} = ''" if self.blanks else f"{text} RLIKE {blank}"
        if self.blanks:  # one with a line's end or a separator is quoted
            line = _literal(f"[\r\n{self.quoted}]")
            yield f"{text} <> '' AND {text} RLIKE {blank} AND NOT {text} RLIKE {line}"


def _literal(text: str) -> str:
    """Of SQL, with white space spelled out."""
    return "'" + "".join(rf"\u{ord(one):04x}" if one in _BLANKS else one for one in text) + "'"
